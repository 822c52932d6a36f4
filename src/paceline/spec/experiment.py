"""The options of a run: `RunSpec` holds those of one run, `Experiment` those of a sweep of runs.

Every option of `paceline run` is declared here and nowhere else. See option.py for what is generated from the
declarations.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from paceline import units
from paceline.spec.fault import Fault, read_faults
from paceline.spec.hosts import join_arguments
from paceline.spec.interval import Interval
from paceline.spec.option import Option, options_of
from paceline.spec.script import check_script, parameters
from paceline.spec.stop import StopRule, read_rules
from paceline.spec.training import Initialisation, shuffle_buffer
from paceline.spec.values import (
    check_directory,
    check_heap,
    check_lineage,
    check_master,
    check_name,
    number_as_text,
    per_host,
)


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All options of one run.

    The key of a run is a hash of those fields in order that identify it, so new fields go to the end.
    """

    workload: Annotated[
        str,
        Option(
            cli="argument",
            help="What to train: a name that `paceline workloads` lists, path/to/file.py or package.module:name.",
        ),
    ]
    size: Annotated[
        str | None,
        Option(cli="flag", unset="the workload's first", help="Variant of the workload, e.g. small or large."),
    ] = None
    examples: Annotated[
        int | None,
        Option(
            cli="flag",
            minimum=1,
            unit="examples",
            unset="all",
            help="Number of training examples to use. Of MNIST there may be more than it has: further ones "
            "are shifted copies.",
        ),
    ] = None
    engine: Annotated[
        str,
        Option(
            cli="flag",
            help="Framework that trains, e.g. torch; `paceline doctor` lists the engines. A workload that runs on only "
            "one engine needs none.",
        ),
    ] = "torch"
    strategy: Annotated[
        str,
        Option(cli="flag", help="How workers combine their updates, e.g. single, ps-sync, ps-async or allreduce."),
    ] = "single"
    layout: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            unset="single if the strategy has one worker, else cluster",
            help="Tasks on hosts: single, cluster, cluster2, or one word per host with p for a parameter server and w "
            "for a worker: 'pw w w'.",
        ),
    ] = None
    batch: Annotated[int, Option(cli="flag", minimum=1, unit="examples", help="Examples per worker and step.")] = 100
    seed: Annotated[
        int, Option(cli="flag", minimum=0, maximum=2**31 - 1, help="Seed of the initial weights and of the data order.")
    ] = 1
    repeat: int = 1
    """The number of this repeat, counted from 1. `Experiment.repeat` is how many there are."""
    stop: Annotated[
        tuple[StopRule, ...],
        Option(
            cli="flag",
            launch=True,
            axis=False,
            accepts=str | StopRule | Sequence[str | StopRule] | Mapping[str, float],
            parse=read_rules,
            help="steps=N, loss=X, accuracy=X, epochs=N, seconds=N or plateau=N, which is met after N evaluations "
            "without a new lowest test loss. May be given several times; the run ends when the first rule is met.",
        ),
    ] = (StopRule("epochs", 1),)
    fault: Annotated[
        tuple[Fault, ...],
        Option(
            cli="flag",
            launch=True,
            axis=False,
            accepts=str | Fault | Sequence[str | Fault],
            parse=read_faults,
            help="Fault to inject: 'kill w1 at step 500', 'freeze h2 for 5s at 10s'; also cut, slow and limit. May be "
            "given several times.",
        ),
    ] = ()
    eval_every: Annotated[
        int | None,
        Option(
            cli="flag",
            minimum=1,
            unit="updates",
            unset="100 if a stop rule needs evaluations, else only at the end",
            help="Updates between evaluations by the chief (worker 0).",
        ),
    ] = None
    eval_examples: Annotated[
        int | None,
        Option(minimum=1, unit="examples", unset="all", help="Test examples to evaluate on, counted from the first."),
    ] = None
    checkpoint_every: Annotated[
        str | None,
        Option(
            cli="flag",
            accepts=int | str | None,
            unit="updates or time",
            unset="only when the run is interrupted",
            parse=number_as_text,
            check=Interval.parse,
            help="Updates (500) or time (30s) between checkpoints by the chief.",
        ),
    ] = None
    checkpoint_keep: Annotated[int, Option(minimum=1, help="Number of checkpoints to keep: the latest ones.")] = 3
    backup: Annotated[
        int,
        Option(
            cli="flag",
            minimum=0,
            unit="workers",
            help="Number of slowest workers that an update of ps-sync does not wait for, where the engine supports it.",
        ),
    ] = 0
    on_failure: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            choices=("fail", "restart"),
            unset="restart a worker if the others can train on meanwhile, else fail",
            help="What to do when a task dies: fail, or restart (from the last checkpoint if training cannot continue "
            "without the task).",
        ),
    ] = None
    restarts: Annotated[
        int, Option(cli="flag", launch=True, minimum=0, maximum=1000, help="Maximum number of restarts in a run.")
    ] = 3
    hosts: Annotated[
        str,
        Option(
            cli="flag",
            launch=True,
            split=join_arguments,
            help="local; netns (Linux, root): isolated network namespaces on this machine; ssh:hosts.toml or "
            "ssh:HOST,HOST: machines reached by ssh. In a list, what begins with no kind of hosts belongs to the value "
            "before it.",
        ),
    ] = "local"
    link: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            unit="bit/s",
            unset="unlimited",
            check=per_host("link", units.bits_per_second),
            help="Rate of each host's link (netns): 100mbit, or one word per host: '10mbit 1gbit'.",
        ),
    ] = None
    latency: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            unit="time",
            unset="no delay",
            check=per_host("latency", units.delay),
            help="Delay of everything that a host sends (netns): 1ms, or one word per host.",
        ),
    ] = None
    cpus: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            accepts=float | str | None,
            unit="cores",
            unset="unlimited",
            parse=number_as_text,
            check=per_host("cpus", units.cpus),
            help="Cores that the tasks of a host share (netns): 0.5, or one word per host: '0.1 1 -', where - is no "
            "limit.",
        ),
    ] = None
    lr: Annotated[float | None, Option(above=0, unset="the workload's", help="Learning rate.")] = None
    momentum: Annotated[
        float | None, Option(minimum=0, below=1, unset="the workload's", help="Momentum of the optimizer.")
    ] = None
    threads: Annotated[
        int | None,
        Option(
            launch=True,
            minimum=1,
            maximum=4096,
            unset="an even share of the cores, or 1 if the engine measures that this is faster",
            help="Compute threads per worker.",
        ),
    ] = None
    transport: Annotated[
        str | None,
        Option(
            choices=("memory", "tcp"),
            unset="memory where the engine and the hosts support it",
            help="How parameter servers and workers on one machine exchange values: through shared memory or TCP.",
        ),
    ] = None
    sample_hz: Annotated[
        float, Option(minimum=0.1, maximum=100, unit="Hz", help="Samples of each host's counters per second.")
    ] = 10.0
    trace_every: Annotated[
        int | None,
        Option(
            minimum=0,
            unit="steps",
            unset="the engine's choice",
            help="Steps between traces, for engines that do not report the phases of a step otherwise; 0 is never.",
        ),
    ] = None
    record: Annotated[bool, Option(help="Record phases and samples; false is for measuring what recording costs.")] = (
        True
    )
    trusted_network: Annotated[
        bool,
        Option(
            cli="flag",
            launch=True,
            axis=False,
            identifies=False,
            help="Declare that only trusted users can reach the network between the hosts. Frameworks that accept any "
            "connection (TensorFlow, gloo) need it on hosts of a network that other machines can reach.",
        ),
    ] = False
    time_limit: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            axis=False,
            # A sweep need not repeat a run that ended before another limit.
            identifies=False,
            unit="time",
            unset="1h if all stop rules are loss or accuracy, else none",
            check=units.time_limit,
            help="Time of training after which a run that has met no stop rule ends as failed: 90s, 30m or 2h.",
        ),
    ] = None
    lr_scale: Annotated[
        str,
        Option(
            choices=("none", "linear"),
            help="none, or linear: multiply the learning rate by the number of workers whose gradients one update "
            "averages.",
        ),
    ] = "none"
    init: Annotated[
        str | None,
        Option(
            unset="the workload's",
            check=Initialisation.parse,
            help="Distribution of the initial weights and biases: normal:1 (standard deviation), uniform:-10:10 or "
            "constant:0.",
        ),
    ] = None
    activation: Annotated[
        str | None,
        Option(
            choices=("relu", "tanh", "sigmoid"),
            unset="the workload's",
            help="Activation after the hidden layers of a built-in workload.",
        ),
    ] = None
    steps_per_epoch: Annotated[
        int | None,
        Option(
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
            choices=("global", "worker"),
            help="global: workers take parts of the same global batch, so that the number of workers does not change "
            "the examples of an update. worker: each worker has its own fixed part of the training set.",
        ),
    ] = "global"
    shuffle: Annotated[
        str,
        Option(
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
            choices=("chief", "workers"),
            help="Who evaluates every eval-every updates: chief (worker 0), or all workers, each with the parameters "
            "that it has.",
        ),
    ] = "chief"
    histograms: Annotated[
        bool, Option(help="Write histograms of all parameters for TensorBoard at each evaluation.")
    ] = False
    master: Annotated[
        str | None,
        Option(
            unset="a standalone cluster on the run's hosts",
            check=check_master,
            help="Spark: the address of a cluster that exists already: spark://HOST:PORT, yarn or local[N].",
        ),
    ] = None
    executor_memory: Annotated[
        str | None,
        Option(
            unit="bytes",
            unset="an even share of half of the machine's memory, at most 4g",
            check=check_heap,
            help="Spark: heap of each executor, e.g. 512m or 2g.",
        ),
    ] = None
    driver_memory: Annotated[
        str | None,
        Option(
            unit="bytes",
            unset="as executor_memory",
            check=check_heap,
            help="Spark: heap of the driver, e.g. 512m or 2g.",
        ),
    ] = None
    lineage: Annotated[
        str | None,
        Option(
            accepts=int | str | None,
            unit="steps",
            unset="every step starts from the same RDD",
            parse=number_as_text,
            check=check_lineage,
            help="Spark, bsp-sgd: make the RDD of each step from that of the step before, as iterative programs do. "
            "N: checkpoint it every N steps; grow: never.",
        ),
    ] = None
    script: Annotated[
        tuple[str, ...],
        Option(
            cli="launch",
            axis=False,
            check=check_script,
            accepts=Sequence[str],
            help="A training script of your own and its arguments, or -m, a module and its arguments. It takes the "
            "place of the workload.",
        ),
    ] = ()
    param: Annotated[
        str | None,
        Option(
            cli="launch",
            unset="none",
            check=parameters,
            help="Values for the {name} in the arguments of the script: `bs=32 workers=2`. On the command line, "
            "--param bs=32,64 makes a run for each value.",
        ),
    ] = None
    stall_limit: Annotated[
        str,
        Option(
            cli="launch",
            launch=True,
            axis=False,
            identifies=False,
            unit="time",
            check=units.time_limit,
            help="Time without a step, also before the first one, after which a script counts as stuck: 90s, 10m or "
            "2h.",
        ),
    ] = "10m"

    stack_hz: Annotated[
        float,
        Option(
            cli="launch",
            launch=True,
            axis=False,
            identifies=False,
            minimum=0,
            maximum=100,
            unit="Hz",
            help="Samples per second of the line of a script that each rank is in; 0 is none.",
        ),
    ] = 20.0

    @property
    def is_script(self) -> bool:
        """Whether it starts a user's script instead of training a workload."""
        return bool(self.script)


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A run, the options that take several values, and the number of repeats."""

    run: RunSpec
    """The first run: every option with a list has the first value of it."""
    given: frozenset[str] = frozenset()
    """The options that the user gave; the others have their default."""
    axes: Mapping[str, tuple[Any, ...]] = {}
    """The options with several values; the runs are the product of these lists."""
    repeat: Annotated[
        int, Option(cli="flag", launch=True, axis=False, minimum=1, help="Number of times to repeat each run.")
    ] = 1
    name: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            axis=False,
            unset="the workload's",
            check=check_name,
            help="Name of the sweep: a-z, 0-9 and '-'. With the name of an earlier sweep, only missing runs are made.",
        ),
    ] = None
    runs: Annotated[
        str, Option(cli="flag", launch=True, axis=False, check=check_directory, help="Directory that holds the runs.")
    ] = "runs"

    def value(self, option: str) -> object:
        """The value of an option; a tuple of all values for an option that may be a list."""
        if option in AXES:
            return self.axes.get(option, (getattr(self.run, option),))
        return getattr(self.run if option in RUN_OPTIONS else self, option)


RUN_OPTIONS = options_of(RunSpec)
OPTIONS = {**RUN_OPTIONS, **options_of(Experiment)}
"""Every option by name, in the order of its declaration."""
IDENTIFYING = tuple(name for name in RunSpec.__struct_fields__ if name not in OPTIONS or OPTIONS[name].identifies)
"""The fields of RunSpec that make two runs different; the number of the repeat is one of them."""
AXES = tuple(name for name, option in OPTIONS.items() if option.axis)
"""The options that may be lists."""
DEFAULTS = {name: OPTIONS[name].default for name in AXES if name != "workload"}
"""The default of each option that may be a list; the workload has none."""
