import tertium
from tertium.models.surgery import join_towers, tower_encoders

encoder = tertium.load().with_pooling("cls", normalize=False)
twin = join_towers(encoder, encoder.copy())
first, second = tower_encoders(twin)  # they share the twin's weights
for model in (twin, first, second):
    print(f"{model.score([('A cat sleeps.', 'A kitten naps.')])[0]:.2f}")
