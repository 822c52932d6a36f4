"""Mixed precision on CPUs, with gradient accumulation: paceline launch --layout ww mixed_precision.py"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4

dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 10)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for batch in range(1, 81):
    inputs, labels = torch.randn(16, 128), torch.randint(0, 10, (16,))
    is_last = batch % ACCUMULATE == 0
    with nullcontext() if is_last else model.no_sync():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        (loss / ACCUMULATE).backward()
    if is_last:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
if dist.get_rank() == 0:
    print(f"loss {loss.item():.4f}")
dist.destroy_process_group()
