"""The type of a workload: model, data, loss and optimizer under one name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from paceline.data.batches import Examples, Share
from paceline.spec.optimizer import TrainingText
from paceline.spec.stop import FALLING
from paceline.strategies.descriptor import Fact
from paceline.workloads.block_matmul import BlockMatmul
from paceline.workloads.model import Loss, LossFunction, Model

BatchOfArrays = tuple[Any, ...] | Mapping[str, Any]
"""NumPy arrays whose first axis is the examples: a tuple of the inputs and, last, the target; or a dict in which the
target is called `labels` or `target`, and the model gets the others by their names."""


class Metric(msgspec.Struct, frozen=True):
    """A metric that the `evaluate` of a workload returns under this name, so that stop rules can use it."""

    name: str
    better: Literal["higher", "lower"]
    """Whether a model with a higher or with a lower value is better."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A built-in workload, or a user's own.

    Its model is given by `model`, or by `torch` and `tensorflow`; its data by one of `dataset`, `data` and `train`.
    """

    name: str
    size: str = ""
    """The name of the variant, if the workload has several."""
    summary: str = ""
    model: Model | None = None
    """A model of layers, which every engine can build."""
    torch: Callable[[], Any] | None = None
    """Returns an nn.Module, for engine torch."""
    tensorflow: Callable[[], Any] | None = None
    """Returns a Keras model or a TensorFunction, for engine tensorflow."""
    loss: Loss | LossFunction = "softmax"
    """The loss of the model that `torch` or `tensorflow` returns: a name, or a function of its outputs and the target
    that returns one number as a tensor of the framework."""
    train_step: Callable[..., Any] | None = None
    """(model, *inputs, target) -> the loss of a batch as a tensor of the framework, instead of `loss`. Paceline
    computes the gradients and makes the update."""
    evaluate: Callable[[Callable[..., Any], list[tuple[Any, ...]]], Mapping[str, float]] | None = None
    """(predict, batches of the test set) -> metrics by name, such as loss and accuracy; `predict(*inputs)` returns the
    outputs of the model as NumPy arrays. Without it, the loss and the metrics that belong to it are computed."""
    metrics: tuple[str | Metric, ...] = ()
    """Further metrics of an evaluation: top5 or perplexity, for the loss softmax; or a Metric that `evaluate` returns,
    for stop rules."""
    blocks: BlockMatmul | None = None
    """The computation of a workload that does not train."""
    dataset: str | None = None
    """The name of a built-in data set (see paceline.data.registry)."""
    data: Callable[[], Examples] | None = None
    """Returns a data set of the user's own, such as a reader of LibSVM files."""
    train: Callable[[Share], Iterable[BatchOfArrays]] | None = None
    """Returns the batches of one worker for one epoch; called again for the next epoch. To continue at a later step, a
    sequence is read only from there; any other iterable is drawn from its start."""
    test: Callable[[], Iterable[BatchOfArrays]] | None = None
    """Returns the test set in batches; without it there is no evaluation."""
    train_examples: int
    """Training examples in one epoch, over all workers."""
    lr: float = 0.1
    """Learning rate of the optimizer."""
    momentum: float = 0.0
    """The momentum of gradient descent, if no `optimizer` is given."""
    optimizer: str | None = None
    """As `--set optimizer`, e.g. adamw:weight_decay=0.01; None: gradient descent."""
    schedule: str | None = None
    """As `--set schedule`, e.g. cosine:warmup=100."""
    clip: float | None = None
    """As `--set clip`: the largest norm of a gradient."""
    param_groups: str | None = None
    """As `--set param_groups`, e.g. '*bias:weight_decay=0'."""
    most_threads: int | None = None
    """The number of compute threads above which a worker becomes slower, if known."""
    refused: Mapping[Fact, str] = {}
    """Fact of a strategy -> why strategies with this fact cannot be used; the reason is shown to the user."""

    @property
    def title(self) -> str:
        """Name and size, as on the command line."""
        return f"{self.name}:{self.size}" if self.size else self.name

    @property
    def trained_for(self) -> Loss | LossFunction:
        """The loss that is minimised, wherever it is given."""
        return self.model.loss if self.model else self.loss

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of `metrics`."""
        return tuple(metric if isinstance(metric, str) else metric.name for metric in self.metrics)

    @property
    def own_metrics(self) -> tuple[Metric, ...]:
        """Those of `metrics` that `evaluate` returns."""
        return tuple(metric for metric in self.metrics if not isinstance(metric, str))

    @property
    def falling_metrics(self) -> frozenset[str]:
        """The qualities of which less is better."""
        return frozenset({*FALLING, *(metric.name for metric in self.own_metrics if metric.better == "lower")})

    @property
    def training(self) -> TrainingText:
        """The optimizer as the workload gives it."""
        return TrainingText(
            lr=self.lr,
            momentum=self.momentum,
            optimizer=self.optimizer,
            schedule=self.schedule,
            clip=self.clip,
            param_groups=self.param_groups,
        )

    @property
    def user_models(self) -> Mapping[str, Callable[[], Any]]:
        """The functions that make a user's own model, by the name of their field; empty if `model` describes it."""
        given = {"torch": self.torch, "tensorflow": self.tensorflow}
        return {field: make for field, make in given.items() if make}
