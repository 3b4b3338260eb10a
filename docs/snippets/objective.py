import torch

import tertium
from tertium.objectives import OBJECTIVES
from tertium.types import ViewPair

model = tertium.load()
model.model.train()  # dropout on: the same texts give two different views
features = model.features(["A cat sleeps.", "Stocks fell sharply.", "It rains."])
torch.manual_seed(0)
views = ViewPair(first=model.forward(features), second=model.forward(features))

objective = OBJECTIVES["info_nce"](temperature=0.05)
terms = objective(views)
loss = sum(terms.values())
loss.backward()
print(list(terms))
