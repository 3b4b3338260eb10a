import torch
from torch import nn

from tertium.models.adapters import apply_adapter, extract_adapter

torch.manual_seed(0)
base, tuned = nn.Linear(64, 64), nn.Linear(64, 64)
tuned.load_state_dict(base.state_dict())
with torch.no_grad():
    tuned.weight += torch.randn(64, 4) @ torch.randn(4, 64)  # training that moved 4 directions
change = (tuned.weight - base.weight).norm()

for rank in (1, 2, 4):
    copy = nn.Linear(64, 64)
    copy.load_state_dict(base.state_dict())
    apply_adapter(copy, extract_adapter(base, tuned.state_dict(), rank=rank))
    lost = (tuned.weight - copy.weight).norm() / change
    print(f"rank {rank}: {100 * lost:.0f} % of the change lost")
