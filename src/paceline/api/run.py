"""`paceline.run` and `paceline.launch`. Written by `make docs` from spec/run_options.py; do not edit."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Never

from paceline.api.make_runs import launch_fields, run_fields
from paceline.api.results import Results
from paceline.spec.fault import Fault
from paceline.spec.stop import StopRule
from paceline.workloads.workload import Workload


def run(
    workload: str | Workload | Sequence[str | Workload],
    *,
    size: str | Sequence[str | None] | None = None,
    examples: int | Sequence[int | None] | None = None,
    engine: str | Sequence[str] = "torch",
    strategy: str | Sequence[str] = "single",
    layout: str | Sequence[str | None] | None = None,
    batch: int | Sequence[int] = 100,
    seed: int | Sequence[int] = 1,
    stop: str | StopRule | Sequence[str | StopRule] | Mapping[str, float] = ("epochs=1",),
    fault: str | Fault | Sequence[str | Fault] = (),
    eval_every: int | Sequence[int | None] | None = None,
    eval_examples: int | Sequence[int | None] | None = None,
    checkpoint_every: int | str | Sequence[int | str | None] | None = None,
    checkpoint_keep: int | Sequence[int] = 3,
    backup: int | Sequence[int] = 0,
    on_failure: str | Sequence[str | None] | None = None,
    restarts: int | Sequence[int] = 3,
    hosts: str | Sequence[str] = "local",
    link: str | Sequence[str | None] | None = None,
    latency: str | Sequence[str | None] | None = None,
    cpus: float | str | Sequence[float | str | None] | None = None,
    lr: float | Sequence[float | None] | None = None,
    momentum: float | Sequence[float | None] | None = None,
    threads: int | Sequence[int | None] | None = None,
    transport: str | Sequence[str | None] | None = None,
    sample_hz: float | Sequence[float] = 10.0,
    trace_every: int | Sequence[int | None] | None = None,
    record: bool | Sequence[bool] = True,
    trusted_network: bool = False,
    time_limit: str | None = None,
    lr_scale: str | Sequence[str] = "none",
    init: str | Sequence[str | None] | None = None,
    activation: str | Sequence[str | None] | None = None,
    steps_per_epoch: int | Sequence[int | None] | None = None,
    shard: str | Sequence[str] = "global",
    shuffle: int | str | Sequence[int | str] = "all",
    eval_by: str | Sequence[str] = "chief",
    histograms: bool | Sequence[bool] = False,
    optimizer: str | Sequence[str | None] | None = None,
    schedule: str | Sequence[str | None] | None = None,
    clip: float | Sequence[float | None] | None = None,
    param_groups: str | Sequence[str | None] | None = None,
    master: str | Sequence[str | None] | None = None,
    executor_memory: str | Sequence[str | None] | None = None,
    driver_memory: str | Sequence[str | None] | None = None,
    lineage: int | str | Sequence[int | str | None] | None = None,
    sync_every: int | Sequence[int | None] | None = None,
    outer_lr: float | Sequence[float | None] | None = None,
    outer_momentum: float | Sequence[float | None] | None = None,
    staleness_bound: int | str | Sequence[int | str | None] | None = None,
    compress: str | Sequence[str | None] | None = None,
    script: Sequence[str] = (),
    param: str | Sequence[str | None] | None = None,
    stall_limit: str = "10m",
    stack_hz: float = 20.0,
    tag: str | Sequence[str] = (),
    repeat: int = 1,
    name: str | None = None,
    runs: str = "runs",
    check: bool = True,
    progress: bool | None = None,
    **unknown: Never,
) -> Results:
    """Run an experiment and return the results of its runs.

    A list of values makes a sweep of all combinations. Ctrl-C stops the current run, keeps its result on disk and is
    raised here as KeyboardInterrupt.

    Args:
        workload: What to train: a name that `paceline workloads` lists, path/to/file.py, package.module:name, or a
            `paceline.Workload`, also one that is defined in a notebook.
        size: Variant of the workload, e.g. small or large. Default: the workload's first.
        examples: Number of training examples to use. Of MNIST there may be more than it has: further ones are shifted
            copies. Must be 1 or more. Default: all.
        engine: Framework that trains, e.g. torch; `paceline doctor` lists the engines. A workload that runs on only one
            engine needs none. Default: torch.
        strategy: How workers combine their updates, e.g. single, ps-sync, ps-async or allreduce. Default: single.
        layout: Tasks on hosts: single, cluster, cluster2, or one word per host with p for a parameter server and w for
            a worker: 'pw w w'. Default: single if the strategy has one worker, else cluster.
        batch: Examples per worker and step. Must be 1 or more. Default: 100.
        seed: Seed of the initial weights and of the data order. Must be from 0 to 2,147,483,647. Default: 1.
        stop: steps=N, loss=X, accuracy=X, epochs=N, seconds=N or plateau=N, which is met after N evaluations without a
            new lowest test loss; also perplexity=X, top5=X, auc=X and metrics that the workload declares. May be given
            several times; the run ends when the first rule is met. Default: epochs=1.
        fault: Fault to inject: 'kill w1 at step 500', 'freeze h2 for 5s at 10s'; also cut, slow and limit. May be given
            several times.
        eval_every: Updates between evaluations by the chief (worker 0); 0: no evaluation, not even at the end. Must be
            0 or more. Default: 100 if a stop rule needs evaluations, else only at the end.
        eval_examples: Test examples to evaluate on, counted from the first. Must be 1 or more. Default: all.
        checkpoint_every: Updates (500) or time (30s) between checkpoints by the chief. Default: only when the run is
            interrupted.
        checkpoint_keep: Number of checkpoints to keep: the latest ones. Must be 1 or more. Default: 3.
        backup: Number of slowest workers that an update of ps-sync does not wait for, where the engine supports it.
            Must be 0 or more. Default: 0.
        on_failure: What to do when a task dies: fail, or restart (from the last checkpoint if training cannot continue
            without the task). One of fail, restart. Default: restart a worker if the others can train on meanwhile,
            else fail.
        restarts: Maximum number of restarts in a run. Must be from 0 to 1,000. Default: 3.
        hosts: local; netns (Linux, root): isolated network namespaces on this machine; ssh:hosts.toml or ssh:HOST,HOST:
            machines reached by ssh. In a list, what begins with no kind of hosts belongs to the value before it.
            Default: local.
        link: Rate of each host's link (netns): 100mbit, or one word per host: '10mbit 1gbit'. Default: unlimited.
        latency: Delay of everything that a host sends (netns): 1ms, or one word per host. Default: no delay.
        cpus: Cores that the tasks of a host share (netns): 0.5, or one word per host: '0.1 1 -', where - is no limit.
            Default: unlimited.
        lr: Learning rate. Must be above 0 and finite. Default: the workload's.
        momentum: Momentum of the optimizer. Must be from 0 to below 1. Default: the workload's.
        threads: Compute threads per worker. Must be from 1 to 4,096. Default: an even share of the cores, or 1 if the
            engine measures that this is faster.
        transport: How parameter servers and workers on one machine exchange values: through shared memory or TCP. One
            of memory, tcp. Default: memory where the engine and the hosts support it.
        sample_hz: Samples of each host's counters per second. Must be from 0.1 to 100. Default: 10.
        trace_every: Steps between traced steps, for engines that report the phases of a step only in traces; 0: never.
            Must be 0 or more. Default: the engine's choice.
        record: Record phases and samples; false is for measuring what recording costs. Default: true.
        trusted_network: Declare that only trusted users can reach the network between the hosts. Frameworks that accept
            any connection (TensorFlow, gloo) need it on hosts of a network that other machines can reach. Default:
            false.
        time_limit: Time of training after which a run that has met no stop rule ends as failed: 90s, 30m or 2h.
            Default: 1h if all stop rules are of a quality such as loss, else none.
        lr_scale: none, or linear: multiply the learning rate by the number of workers whose gradients one update
            averages. One of none, linear. Default: none.
        init: Distribution of the initial weights and biases: normal:1 (standard deviation), uniform:-10:10 or
            constant:0. Default: the workload's.
        activation: Activation after the hidden layers of a built-in workload. One of relu, tanh, sigmoid. Default: the
            workload's.
        steps_per_epoch: Steps of each worker in an epoch; the next epoch begins a new pass, as in Keras. If a pass has
            fewer steps, the epoch has several passes. Must be 1 or more. Default: one pass over the training set.
        shard: global: workers take parts of the same global batch, so that the number of workers does not change the
            examples of an update. worker: each worker has its own fixed part of the training set. One of global,
            worker. Default: global.
        shuffle: Order of the examples in a pass: all (a permutation), none, or the number of examples in a buffer from
            which the next one is drawn, as tf.data does it. Default: all.
        eval_by: Who evaluates every eval-every updates: chief (worker 0), or all workers, each with the parameters that
            it has. One of chief, workers. Default: chief.
        histograms: Write histograms of all parameters for TensorBoard at each evaluation. Default: false.
        optimizer: Optimizer and its settings: sgd, momentum, nesterov, adagrad, adam or adamw, e.g.
            adamw:weight_decay=0.01:beta2=0.95. Default: the workload's.
        schedule: Learning rate over the updates: constant, step:every=1000:factor=0.1, cosine or linear, each with
            warmup=N; cosine and linear fall to floor=X over updates=N, or over all updates of the run. Default: the
            workload's, else constant.
        clip: Largest norm of a gradient; a larger one is scaled down to it. Synchronous strategies: of the mean
            gradient of all workers. Asynchronous ones: of each worker's own gradient. Must be above 0 and finite.
            Default: the workload's, else none.
        param_groups: Settings for parameters by name: words of a pattern with lr_scale and weight_decay, e.g.
            '*bias:weight_decay=0 0.*:lr_scale=0.1'. The first pattern that matches counts. Default: the workload's,
            else one group.
        master: Spark: the address of a cluster that exists already: spark://HOST:PORT, yarn or local[N]. Default: a
            standalone cluster on the run's hosts.
        executor_memory: Spark: heap of each executor, e.g. 512m or 2g. Default: an even share of half of the machine's
            memory, at most 4g.
        driver_memory: Spark: heap of the driver, e.g. 512m or 2g. Default: as executor_memory.
        lineage: Spark, bsp-sgd: make the RDD of each step from that of the step before, as iterative programs do. N:
            checkpoint it every N steps; grow: never. Default: every step starts from the same RDD.
        sync_every: local-sgd, diloco: steps that each worker makes alone between two exchanges. Must be 1 or more.
            Default: 16 for local-sgd, 100 for diloco.
        outer_lr: diloco: learning rate of the outer step, which applies the mean change of the workers. Must be above 0
            and finite. Default: 0.7.
        outer_momentum: diloco: Nesterov momentum of the outer step; 0 is none. Must be from 0 to below 1. Default: 0.9.
        staleness_bound: ssp: how many steps a worker may be ahead of the slowest before it waits: 0 is lockstep, inf
            never waits. Default: 3.
        compress: How workers of engine torch compress what they send: fp16, int8, topk:0.01 (the largest 1 % of the
            values) or powersgd:4 (matrices of rank 4). What is left out is added to the next exchange. Default: nothing
            is compressed.
        script: A training script of your own and its arguments, or -m, a module and its arguments. It takes the place
            of the workload.
        param: Values for the {name} in the arguments of the script: `bs=32 workers=2`. On the command line, --param
            bs=32,64 makes a run for each value. Default: none.
        stall_limit: Time without a step, also before the first one, after which a script counts as stuck: 90s, 10m or
            2h. Default: 10m.
        stack_hz: How many times per second to sample the line that each rank of a script executes; 0: never. Must be
            from 0 to 100. Default: 20.
        tag: Word by which to find the run again, with `paceline ls --tag` or on the page, e.g. baseline. May be given
            several times.
        repeat: Number of times to repeat each run. Must be 1 or more. Default: 1.
        name: Name of the sweep: a-z, 0-9 and '-'. With the name of an earlier sweep, only missing runs are made.
            Default: the workload's.
        runs: Directory that holds the runs. Default: runs.
        check: Raise RunFailed if a run fails or diverges. Without it, see `status` of the results.
        progress: Whether to show the progress of the runs. Default: in a notebook, and if stderr is a terminal.
    """
    fields = locals()
    # Unknown names are refused with the nearest option names, as in a spec file.
    fields |= fields.pop("unknown")
    return run_fields(fields)


def launch(
    script: str | Path | Callable[..., object],
    *arguments: object,
    module: bool = False,
    param: Mapping[str, object | Sequence[object]] | None = None,
    layout: str | Sequence[str | None] | None = None,
    stop: str | StopRule | Sequence[str | StopRule] | Mapping[str, float] = (),
    fault: str | Fault | Sequence[str | Fault] = (),
    on_failure: str | Sequence[str | None] | None = None,
    restarts: int | Sequence[int] = 3,
    hosts: str | Sequence[str] = "local",
    link: str | Sequence[str | None] | None = None,
    latency: str | Sequence[str | None] | None = None,
    cpus: float | str | Sequence[float | str | None] | None = None,
    threads: int | Sequence[int | None] | None = None,
    trusted_network: bool = False,
    time_limit: str | None = None,
    stall_limit: str = "10m",
    stack_hz: float = 20.0,
    tag: str | Sequence[str] = (),
    repeat: int = 1,
    name: str | None = None,
    runs: str = "runs",
    check: bool = True,
    progress: bool | None = None,
    **unknown: Never,
) -> Results:
    """Run a training script or function of your own, one rank for each `w` of the layout, and measure it.

    Ranks have the environment variables that torchrun sets. Steps of torch optimizers and of Keras `fit` are observed.

    Args:
        script: The path of a Python script, the name of a module (with `module=True`), or a function, also one that is
            defined in a notebook.
        arguments: Arguments of the script, or positional arguments of the function. In those of a script, {name} is the
            value of a parameter.
        module: Whether `script` is the name of a module, as with `python -m`.
        param: Parameters by name; a list of values makes a run for each of them, and for each combination. They replace
            {name} in the arguments of a script, and are keyword arguments of a function.
        layout: Tasks on hosts: single, cluster, cluster2, or one word per host with p for a parameter server and w for
            a worker: 'pw w w'. Default: single if the strategy has one worker, else cluster.
        stop: steps=N, loss=X, accuracy=X, epochs=N, seconds=N or plateau=N, which is met after N evaluations without a
            new lowest test loss; also perplexity=X, top5=X, auc=X and metrics that the workload declares. May be given
            several times; the run ends when the first rule is met.
        fault: Fault to inject: 'kill w1 at step 500', 'freeze h2 for 5s at 10s'; also cut, slow and limit. May be given
            several times.
        on_failure: What to do when a task dies: fail, or restart (from the last checkpoint if training cannot continue
            without the task). One of fail, restart. Default: restart a worker if the others can train on meanwhile,
            else fail.
        restarts: Maximum number of restarts in a run. Must be from 0 to 1,000. Default: 3.
        hosts: local; netns (Linux, root): isolated network namespaces on this machine; ssh:hosts.toml or ssh:HOST,HOST:
            machines reached by ssh. In a list, what begins with no kind of hosts belongs to the value before it.
            Default: local.
        link: Rate of each host's link (netns): 100mbit, or one word per host: '10mbit 1gbit'. Default: unlimited.
        latency: Delay of everything that a host sends (netns): 1ms, or one word per host. Default: no delay.
        cpus: Cores that the tasks of a host share (netns): 0.5, or one word per host: '0.1 1 -', where - is no limit.
            Default: unlimited.
        threads: Compute threads per worker. Must be from 1 to 4,096. Default: an even share of the cores, or 1 if the
            engine measures that this is faster.
        trusted_network: Declare that only trusted users can reach the network between the hosts. Frameworks that accept
            any connection (TensorFlow, gloo) need it on hosts of a network that other machines can reach. Default:
            false.
        time_limit: Time of training after which a run that has met no stop rule ends as failed: 90s, 30m or 2h.
            Default: 1h if all stop rules are of a quality such as loss, else none.
        stall_limit: Time without a step, also before the first one, after which a script counts as stuck: 90s, 10m or
            2h. Default: 10m.
        stack_hz: How many times per second to sample the line that each rank of a script executes; 0: never. Must be
            from 0 to 100. Default: 20.
        tag: Word by which to find the run again, with `paceline ls --tag` or on the page, e.g. baseline. May be given
            several times.
        repeat: Number of times to repeat each run. Must be 1 or more. Default: 1.
        name: Name of the sweep: a-z, 0-9 and '-'. With the name of an earlier sweep, only missing runs are made.
            Default: the workload's.
        runs: Directory that holds the runs. Default: runs.
        check: Raise RunFailed if a run fails or diverges. Without it, see `status` of the results.
        progress: Whether to show the progress of the runs. Default: in a notebook, and if stderr is a terminal.
    """
    fields = locals()
    fields |= fields.pop("unknown")
    return launch_fields(fields)
