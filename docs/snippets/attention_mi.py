import torch

import tertium
from tertium.objectives import OBJECTIVES
from tertium.types import ViewPair

model = tertium.load()
model.model.train()  # dropout on: the same texts give two different views
features = model.features(["A cat sleeps.", "Stocks fell sharply.", "It rains."])
attention_mi, info_nce = OBJECTIVES["attention_mi"](), OBJECTIVES["info_nce"]()
layers = attention_mi.attention_layers(model.backbone.config.num_hidden_layers)
earlier = torch.randn(8, model.dimension, generator=torch.Generator().manual_seed(0))

torch.manual_seed(0)
first = model.forward(features, attention_layers=layers)
second = model.forward(features, attention_layers=layers)
views = ViewPair(first, second, queue=earlier)  # a real queue holds embeddings of earlier batches
loss = info_nce(views)["contrast"] + 1e-3 * attention_mi(views)["attention_mi"]
loss.backward()
print("layers", list(layers), "gives", *attention_mi(views))
