"""Options of how a model is trained and evaluated."""

from typing import Annotated

from paceline.spec.base_options import BaseOptions
from paceline.spec.option import Option
from paceline.spec.training import Initialisation, shuffle_buffer
from paceline.spec.values import number_as_text


class TrainingOptions(BaseOptions, frozen=True, kw_only=True):
    """Initial weights, order of the data, evaluation."""

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
