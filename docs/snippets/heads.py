import torch

from tertium.heads import HEADS

u, v = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
for name, head in {
    "siamese": HEADS["siamese"](dimension=8, seed=1),
    "ablation": HEADS["siamese"](dimension=8, features=("|u-v|",), seed=1),
    "classifier": HEADS["siamese"](dimension=8, outputs=3, seed=1),
    "cosine": HEADS["cosine"](dimension=8, low=0.0, high=5.0),
}.items():
    weights = sum(weight.numel() for weight in head.parameters())
    print(name, tuple(head(u, v).shape), weights, "weights")
