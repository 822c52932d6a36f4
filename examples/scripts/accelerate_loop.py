"""A training loop with Accelerate: paceline launch --layout ww accelerate_loop.py"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(1)
data = TensorDataset(torch.randn(512, 32), torch.randint(0, 4, (512,)))
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=1e-3), DataLoader(data, batch_size=16, shuffle=True)
)
for _epoch in range(2):
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
accelerator.print(f"loss {loss.item():.4f}")
accelerator.end_training()
