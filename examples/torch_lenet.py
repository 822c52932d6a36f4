"""Your own workload as an nn.Module on a built-in data set, for engine torch.

paceline run examples/torch_lenet.py --strategy ps-sync,allreduce --layout cluster
"""

from torch import Tensor, nn

from paceline import Workload


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.AvgPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2)),
        )
        self.classifier = nn.Sequential(
            nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x.view(-1, 1, 28, 28)).flatten(1))


WORKLOAD = Workload(
    name="torch-lenet",
    summary="LeNet as an nn.Module",
    torch=LeNet,
    dataset="mnist",
    train_examples=60_000,
    lr=0.1,
)
