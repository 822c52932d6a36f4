"""A LightningModule: paceline launch --layout ww lightning_fit.py"""

import os

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))

    def training_step(self, batch, _index):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.network(inputs), labels)

    def validation_step(self, batch, _index):
        inputs, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self.network(inputs), labels), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(1)
data = TensorDataset(torch.randn(512, 32), torch.randint(0, 4, (512,)))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    strategy="ddp" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else "auto",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Classifier(), DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=64))
