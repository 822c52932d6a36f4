"""AlexNet for ImageNet in its single-GPU form, and the common smaller form for CIFAR-10."""

from paceline.workloads.layers import Conv, Dense, Dropout, Flatten, MaxPool, Relu
from paceline.workloads.model import Model
from paceline.workloads.workload import Workload

_CONVOLUTIONS = (Conv(384, 3, padding=1), Relu(), Conv(256, 3, padding=1), Relu(), Conv(256, 3, padding=1), Relu())
_CLASSIFIER = (Flatten(), Dropout(), Dense(4096), Relu(), Dropout(), Dense(4096), Relu())

IMAGENET = Model(
    (224, 224, 3),
    (
        *(Conv(64, 11, stride=4, padding=2), Relu(), MaxPool(3, 2)),
        *(Conv(192, 5, padding=2), Relu(), MaxPool(3, 2)),
        *(*_CONVOLUTIONS, MaxPool(3, 2)),
        *(*_CLASSIFIER, Dense(1000)),
    ),
)
CIFAR = Model(
    (32, 32, 3),
    (
        *(Conv(64, 3, stride=2, padding=1), Relu(), MaxPool(2, 2)),
        *(Conv(192, 3, padding=1), Relu(), MaxPool(2, 2)),
        *(*_CONVOLUTIONS, MaxPool(2, 2)),
        *(*_CLASSIFIER, Dense(10)),
    ),
)

SIZES = (
    Workload(
        name="alexnet",
        size="imagenet",
        summary="AlexNet for 224 x 224 pictures and 1,000 classes, momentum",
        model=IMAGENET,
        dataset="imagenet",
        train_examples=1_281_167,
        lr=0.01,
        momentum=0.9,
    ),
    Workload(
        name="alexnet",
        size="cifar",
        summary="AlexNet for 32 x 32 pictures and 10 classes, momentum",
        model=CIFAR,
        dataset="cifar10",
        train_examples=50_000,
        lr=0.01,
        momentum=0.9,
    ),
)
