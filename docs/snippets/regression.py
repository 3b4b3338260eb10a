import torch

import tertium
from tertium.heads import HEADS
from tertium.objectives import OBJECTIVES
from tertium.types import ViewPair

model = tertium.load()
first = model.forward(model.features(["A cat sleeps.", "A cat sleeps."]))
second = model.forward(model.features(["A kitten is napping.", "Stocks fell sharply."]))
views = ViewPair(first, second, labels=torch.tensor([4.2, 0.0]))

head = HEADS["cosine"](dimension=model.dimension, low=0.0, high=5.0)
objective = OBJECTIVES["smooth_k2"](head=head, low=0.0, high=5.0, slope=4.0, threshold=0.25)
terms = objective(views)
terms["smooth_k2"].backward()
print({name: round(value.item(), 2) for name, value in terms.items()})
