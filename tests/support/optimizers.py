"""Optimizers for tests."""

from paceline.spec.optimizer import Optimizer, TrainingText, resolve

TEXTS = (
    "sgd",
    "sgd:weight_decay=0.1",
    "momentum:momentum=0.9",
    "momentum:momentum=0.9:weight_decay=0.1",
    "nesterov:momentum=0.9",
    "adagrad",
    "adagrad:weight_decay=0.1",
    "adam",
    "adam:weight_decay=0.1",
    "adamw:weight_decay=0.1",
)
"""Every optimizer, with and without weight decay."""


def optimizer(text: str, *, lr: float = 0.05, schedule: str | None = None, **options: object) -> Optimizer:
    """The optimizer that a user's text describes."""
    asked = TrainingText(optimizer=text, lr=lr, schedule=schedule, **options)  # type: ignore[arg-type]
    return resolve(asked, TrainingText(), last_update=1000)


def sgd(lr: float, momentum: float = 0.0) -> Optimizer:
    return Optimizer(kind="momentum" if momentum else "sgd", lr=lr, momentum=momentum)
