"""The options that runs of every engine have: what to train, how, on which hosts, until when.

See run_options.py for the whole list of options.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from paceline import units
from paceline.spec.fault import Fault, read_faults
from paceline.spec.hosts import join_arguments
from paceline.spec.interval import Interval
from paceline.spec.option import Option
from paceline.spec.stop import StopRule, read_rules
from paceline.spec.values import number_as_text, per_host


class BaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the first release. New options belong into one of the subclasses."""

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
            "without a new lowest test loss; also perplexity=X, top5=X, auc=X and metrics that the "
            "workload declares. May be given several times; the run ends when the first rule is met.",
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
            minimum=0,
            unit="updates",
            unset="100 if a stop rule needs evaluations, else only at the end",
            help="Updates between evaluations by the chief (worker 0); 0: no evaluation, not even at the end.",
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
            help="Steps between traced steps, for engines that report the phases of a step only in traces; 0: never.",
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
            unset="1h if all stop rules are of a quality such as loss, else none",
            check=units.time_limit,
            help="Time of training after which a run that has met no stop rule ends as failed: 90s, 30m or 2h.",
        ),
    ] = None
    lr_scale: Annotated[
        str,
        Option(
            added=True,
            choices=("none", "linear"),
            help="none, or linear: multiply the learning rate by the number of workers whose gradients one update "
            "averages.",
        ),
    ] = "none"
