import torch

import tertium
from tertium.functional.attention_mi import (
    attention_layers,
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)

model = tertium.load()
model.model.train()  # dropout on: the same texts give two different views
features = model.features(["A brown bear is eating a small fish.", "It rains."])
layers = attention_layers(model.backbone.config.num_hidden_layers)
torch.manual_seed(0)
with torch.no_grad():
    first = model.forward(features, attention_layers=layers)
    second = model.forward(features, attention_layers=layers)

x, y = attention_slices(first.attention), attention_slices(second.attention)
valid = valid_positions(x, y, first.mask)
positions = sample_positions(valid, samples=150)
found = mutual_information(x, y, positions)

print("layers", list(layers), "texts, slices, positions", tuple(x.shape))
for text in range(2):
    count, drawn = int(valid[text, 0].sum()), int(positions.used[text, 0].sum())
    correlation, information = found.correlation[text].mean(), found.information[text].mean()
    print(f"{count} real, {drawn} drawn, correlation {correlation:.2f}, {information:.2f} nats")
