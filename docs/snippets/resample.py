import torch

from tertium.types import Tokens
from tertium.views.base import resample

tokens = Tokens(torch.tensor([[1, 7, 8, 9, 2]]), torch.ones(1, 5, dtype=torch.long))
for counts in ([1, 0, 1, 1, 1], [1, 1, 2, 1, 1]):
    changed = resample(tokens, torch.tensor([counts]), padding=0)
    print(changed.ids.tolist(), changed.mask.tolist())
