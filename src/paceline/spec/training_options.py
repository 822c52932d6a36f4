"""Options of how a model is trained and evaluated."""

from typing import Annotated

from paceline.spec.base_options import BaseOptions
from paceline.spec.optimizer import OptimizerText, TrainingText, parse_groups
from paceline.spec.option import Option
from paceline.spec.schedule import Schedule
from paceline.spec.training import Initialisation, shuffle_buffer
from paceline.spec.values import number_as_text


class TrainingOptions(BaseOptions, frozen=True, kw_only=True):
    """Initial weights, order of the data, evaluation, optimizer."""

    init: Annotated[
        str | None,
        Option(
            added=True,
            unset="the workload's",
            check=Initialisation.parse,
            help="Distribution of the initial weights and biases: normal:1 (standard deviation), uniform:-10:10 or "
            "constant:0.",
        ),
    ] = None
    activation: Annotated[
        str | None,
        Option(
            added=True,
            choices=("relu", "tanh", "sigmoid"),
            unset="the workload's",
            help="Activation after the hidden layers of a built-in workload.",
        ),
    ] = None
    steps_per_epoch: Annotated[
        int | None,
        Option(
            added=True,
            minimum=1,
            unit="steps",
            unset="one pass over the training set",
            help="Steps of each worker in an epoch; the next epoch begins a new pass, as in Keras. If a pass has fewer "
            "steps, the epoch has several passes.",
        ),
    ] = None
    shard: Annotated[
        str,
        Option(
            added=True,
            choices=("global", "worker"),
            help="global: workers take parts of the same global batch, so that the number of workers does not change "
            "the examples of an update. worker: each worker has its own fixed part of the training set.",
        ),
    ] = "global"
    shuffle: Annotated[
        str,
        Option(
            added=True,
            accepts=int | str,
            parse=number_as_text,
            check=shuffle_buffer,
            help="Order of the examples in a pass: all (a permutation), none, or the number of examples in a buffer "
            "from which the next one is drawn, as tf.data does it.",
        ),
    ] = "all"
    eval_by: Annotated[
        str,
        Option(
            added=True,
            choices=("chief", "workers"),
            help="Who evaluates every eval-every updates: chief (worker 0), or all workers, each with the parameters "
            "that it has.",
        ),
    ] = "chief"
    histograms: Annotated[
        bool, Option(added=True, help="Write histograms of all parameters for TensorBoard at each evaluation.")
    ] = False
    optimizer: Annotated[
        str | None,
        Option(
            added=True,
            unset="the workload's",
            check=OptimizerText.parse,
            help="Optimizer and its settings: sgd, momentum, nesterov, adagrad, adam or adamw, e.g. "
            "adamw:weight_decay=0.01:beta2=0.95.",
        ),
    ] = None
    schedule: Annotated[
        str | None,
        Option(
            added=True,
            unset="the workload's, else constant",
            check=Schedule.parse,
            help="Learning rate over the updates: constant, step:every=1000:factor=0.1, cosine or linear, each with "
            "warmup=N; cosine and linear fall to floor=X over updates=N, or over all updates of the run.",
        ),
    ] = None
    clip: Annotated[
        float | None,
        Option(
            added=True,
            above=0,
            unset="the workload's, else none",
            help="Largest norm of a gradient; a larger one is scaled down to it. Synchronous strategies: of the mean "
            "gradient of all workers. Asynchronous ones: of each worker's own gradient.",
        ),
    ] = None
    param_groups: Annotated[
        str | None,
        Option(
            added=True,
            unset="the workload's, else one group",
            check=parse_groups,
            help="Settings for parameters by name: words of a pattern with lr_scale and weight_decay, e.g. "
            "'*bias:weight_decay=0 0.*:lr_scale=0.1'. The first pattern that matches counts.",
        ),
    ] = None

    @property
    def training(self) -> TrainingText:
        """The optimizer as the user gives it."""
        return TrainingText(**{name: getattr(self, name) for name in TrainingText.__struct_fields__})
