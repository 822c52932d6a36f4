"""The driver of a Spark run, with the master of its cluster: it makes the updates, evaluates and decides to stop."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from paceline.engines.spark.block_product import BlockProduct
from paceline.engines.spark.bsp_sgd import BspSgd, RowsBspSgd
from paceline.engines.spark.cluster import (
    MASTER_ADDRESS,
    compiler_options,
    heap_mib_of,
    open_context,
    start_master,
    task_cpus,
)
from paceline.engines.spark.details import details_of
from paceline.engines.spark.environment import SparkHome
from paceline.engines.spark.event_log import EventLog
from paceline.engines.spark.executor_watch import ExecutorWatch
from paceline.engines.spark.java_errors import readable_errors
from paceline.engines.spark.jvm import Gateway, check_java, stop
from paceline.engines.spark.lbfgs import Lbfgs, iteration_jobs, shares_of
from paceline.engines.spark.reporter import StepReporter, drain
from paceline.engines.spark.step_channel import ADDRESS, Busy, Done, DriverChannel, Work
from paceline.errors import RunError
from paceline.plan.roles import CHIEF, WORKER, task_names
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import Recorder, clock_ns
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import Chief
from paceline.train.strategy import Step

_ITERATIONS_PER_CALL = 10
"""Iterations of L-BFGS between two checks of the stop rules, if nothing else limits them."""
_NOT_MEASURED = ("CPU, memory, network and disk of the executors: the cluster is not the run's own",)


def _bsp(context: TaskContext, spark: Any) -> BspSgd | BlockProduct:
    if context.workload.blocks:
        return BlockProduct(context, spark, context.workload.blocks)
    return (RowsBspSgd if context.model.by_rows else BspSgd)(context, spark)


Program = BspSgd | BlockProduct | Lbfgs
_PROGRAMS: dict[str, Callable[[TaskContext, Any], Program]] = {"bsp-sgd": _bsp, "lbfgs": Lbfgs}


def run(context: TaskContext) -> Outcome:
    """Start the master and the driver, train, and tell every worker what it reports."""
    check_java()
    job = context.job
    if context.files is None:
        raise RunError("the driver of Spark needs a scratch directory")
    with ExitStack() as stack:
        home = SparkHome(job, context.files.scratch)
        stack.callback(home.remove)
        channel = DriverChannel(job, context.rendezvous.halted)
        stack.callback(channel.close)
        begun_ns = clock_ns()
        spark = stack.enter_context(_cluster(context, home, channel))
        return _train(context, channel, spark, EventLog(home.events, task_cpus(job)), begun_ns)


@contextmanager
def _cluster(context: TaskContext, home: SparkHome, channel: DriverChannel) -> Iterator[Any]:
    """The SparkContext on the run's own cluster, or on the one that the user names."""
    job = context.job
    jvm = Gateway(home, heap_mib_of(job, "driver_memory"), compiler_options(job))
    watch = ExecutorWatch(job, lambda: stop(jvm.process))
    channel.on_executor_end = watch.ended
    spark = None
    gateway = jvm.connect()
    url = job.options.get("master") or start_master(job, home, gateway)
    context.rendezvous.exchange_addresses({ADDRESS: channel.address, MASTER_ADDRESS: url})
    try:
        with watch.named_errors(), readable_errors(job):
            spark = open_context(job, home, gateway, url)
            watch.begin(spark)
            yield spark
    finally:
        watch.close()
        # The run's own cluster ends with its processes; another one must be told that the application is over.
        if spark and "master" in job.options and watch.reason is None:
            spark.stop()
            gateway.shutdown()
        stop(jvm.process)


def _train(context: TaskContext, channel: DriverChannel, spark: Any, events: EventLog, begun_ns: int) -> Outcome:
    program = _PROGRAMS[context.job.strategy](context, spark)
    up_ns = clock_ns()
    program.warm_up()
    reporter = StepReporter(context, channel, events)
    reporter.read_warm_up(spark)
    recorder = ChiefRecorder(channel)
    chief = Chief(msgspec.structs.replace(context, recorder=recorder), program)
    chief.try_evaluation()
    warm_ns = clock_ns()
    context.rendezvous.start_together()
    outcome = Outcome(started_ns=clock_ns(), steps=program.first_step, updates=program.first_step)
    chief.begin(program.first_step)
    if isinstance(program, Lbfgs):
        _iterate(context, program, reporter, chief, recorder, outcome, events, spark)
    else:
        _steps(context, program, reporter, chief, outcome)
    reporter.finish(spark)
    chief.finish(outcome)
    if isinstance(program, BlockProduct):
        outcome.value = program.trace
    startup = {"cluster_start_s": (up_ns - begun_ns) / 1e9, "warm_up_s": (warm_ns - up_ns) / 1e9}
    outcome.details = {**details_of(spark), **startup, **reporter.details(), **program.details()}
    outcome.not_measured = _NOT_MEASURED if "master" in context.job.options else ()
    for index, task in enumerate(task_names(WORKER, context.job.workers)):
        channel.send(task, Done(_outcome_of(task, index, outcome, program, reporter)))
    return outcome


def _steps(
    context: TaskContext, program: BspSgd | BlockProduct, reporter: StepReporter, chief: Chief, outcome: Outcome
) -> None:
    limit = context.job.update_limit
    for number in itertools.count(program.first_step):
        step = program.step(number)
        outcome.updates, outcome.ended_ns, outcome.steps = step.marks.update, step.marks.end_ns, number + 1
        reporter.add(step.group, step.marks, step.shares)
        wants_stop = chief.wants_to_stop(Step(step.loss, step.marks.update), outcome)
        if wants_stop or (limit is not None and step.marks.update >= limit):
            return


def _iterate(
    context: TaskContext,
    program: Lbfgs,
    reporter: StepReporter,
    chief: Chief,
    recorder: "ChiefRecorder",
    outcome: Outcome,
    events: EventLog,
    spark: Any,
) -> None:
    job = context.job
    tasks = program.find_tasks(events)
    while True:
        left = job.update_limit - outcome.updates if job.update_limit is not None else _ITERATIONS_PER_CALL
        # The workers report no step before MLlib returns, after however many iterations.
        with recorder.busy(RecordKind.WAIT):
            call = program.iterate(min(left, job.eval_every or left))
        drain(spark)
        ended = [one for one in events.ended_jobs() if one.group == call.group]
        if not {task.executor for one in ended for task in one.tasks} <= tasks.keys():
            tasks = program.find_tasks(events)  # An executor was replaced.
        for marks, one, loss in call.marks(iteration_jobs(ended, call.made), outcome.updates):
            reporter.send(marks, one, shares_of(one, loss, tasks))
        outcome.updates += call.made
        outcome.steps, outcome.ended_ns = outcome.updates, call.end_ns
        last = Step(call.losses[-1] if call.losses else 0.0, outcome.updates)
        if chief.wants_to_stop(last, outcome) or call.converged or outcome.updates == job.update_limit:
            return


def _outcome_of(task: str, index: int, outcome: Outcome, program: Program, reporter: StepReporter) -> Outcome:
    """What a worker reports: the chief everything, the others what concerns every worker."""
    if isinstance(program, Lbfgs):
        made = outcome.updates - program.first_step
        common = msgspec.structs.replace(outcome, examples=made * program.examples // program.workers)
    else:
        moved, fetched = program.exchanged[index], reporter.fetched_bytes[task]
        common = msgspec.structs.replace(
            outcome, sent_bytes=moved.sent, received_bytes=moved.received + fetched, fetched_bytes=fetched
        )
    if task == CHIEF:
        return common
    return msgspec.structs.replace(
        common,
        loss=None,
        accuracy=None,
        auc=None,
        value=None,
        reached=None,
        reached_ns=0,
        reached_update=0,
        details={},
        not_measured=(),
    )


class ChiefRecorder(Recorder):
    """Sends evaluations and checkpoints to the first worker, which records them."""

    def __init__(self, channel: DriverChannel) -> None:
        self._channel = channel

    def write(
        self,
        kind: RecordKind,
        start_ns: int,
        duration_ns: int,
        *,
        update: int = 0,
        loss: float = float("nan"),
        accuracy: float = float("nan"),
        flags: int = 0,
    ) -> None:
        self._channel.send(CHIEF, Work(kind, start_ns, start_ns + duration_ns, update, loss, accuracy, flags))

    @contextmanager
    def busy(self, kind: RecordKind) -> Iterator[None]:
        self._channel.send(CHIEF, Busy(kind))
        try:
            yield
        finally:
            self._channel.send(CHIEF, Busy(0))

    def close(self) -> None:
        pass
