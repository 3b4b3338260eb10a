import tertium
from tertium.types import Pooling

pair = [("A cat sleeps.", "A kitten is napping.")]
model = tertium.load()
for pooling in (Pooling.MEAN, Pooling.CLS, Pooling.MEAN_FIRST_LAST, Pooling.MEAN_TOP2):
    print(f"{pooling}: {model.with_pooling(pooling).score(pair)[0]:.2f}")
