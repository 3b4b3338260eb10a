import torch

from tertium.functional import info_nce, nt_xent

angles = torch.tensor([0.0, 1.0, 2.0, 0.1, 0.9, 2.2])  # three sentences, first and second views
first, second = torch.stack([angles.cos(), angles.sin()], dim=1).chunk(2)
print("N-way ", info_nce(first, second, temperature=0.5))
print("2N-way", nt_xent(first, second, temperature=0.5))
