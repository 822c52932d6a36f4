"""A Spark worker with its executor: the task starts both and records what the driver reports about the steps."""

import subprocess
import threading
from contextlib import suppress

import msgspec
import psutil

from paceline.engines.spark.cluster import MASTER_ADDRESS, cores_of, heap_mib_of, port_arguments
from paceline.engines.spark.environment import SparkHome
from paceline.engines.spark.executor_ends import ExecutorEnds
from paceline.engines.spark.jvm import DAEMON_OPTIONS, WORKER, check_java, check_running, start_jvm, stop
from paceline.engines.spark.step_channel import ADDRESS, Busy, Done, Steps, StepTimes, Work, WorkerChannel
from paceline.errors import PeersGone, RunError
from paceline.plan.roles import SERVER, task_name
from paceline.recording.layout import RecordKind
from paceline.recording.recorder import Recorder, clock_ns
from paceline.train.context import Outcome, Rendezvous, TaskContext
from paceline.train.flops_probe import operations_per_cpu_s

_WORKER_OVERHEAD_MIB = 64
_POLL_S = 0.1
_JOIN_NS = 30_000_000_000
"""How long a worker that is restarted alone waits for its executor before it counts as back."""


def run(context: TaskContext) -> Outcome:
    """Offer an executor to the driver until the run ends. If the driver is lost and the job is reassignable, continue
    with the next job."""
    while True:
        try:
            return _run(context)
        except PeersGone as error:
            if not context.job.reassignable:
                raise
            reason = str(error)
        context = msgspec.structs.replace(context, job=context.rendezvous.wait_for_new_job(reason))


def _run(context: TaskContext) -> Outcome:
    job = context.job
    flops = operations_per_cpu_s()
    driver = context.rendezvous.exchange_addresses({})[task_name(SERVER, 0)]
    channel = WorkerChannel(context, driver[ADDRESS])
    home = process = ends = None
    try:
        outcome = None
        if "master" not in job.options:
            home, process = _start_worker(context, driver[MASTER_ADDRESS])
            ends = ExecutorEnds(home)
            outcome = _wait_for_executor(context.recorder, channel, process, ends)
        barrier = Barrier(context.rendezvous)
        while not barrier.opened_ns:
            # The driver loads the data meanwhile, and the executor may fail.
            if outcome:
                barrier.join(_POLL_S)
            else:
                outcome = _receive(context.recorder, channel)
            if process and ends:
                _check(process, ends, channel)
        while outcome is None:
            outcome = _receive(context.recorder, channel)
            if process and ends:
                _check(process, ends, channel)
        outcome.started_ns, outcome.operations_per_cpu_s = barrier.opened_ns, flops
        return outcome
    finally:
        if process:
            _end(process)
        if home:
            home.remove()
        channel.close()


class Barrier:
    """Waits in a thread until all tasks are ready, so that this one can go on to receive messages."""

    def __init__(self, rendezvous: Rendezvous) -> None:
        self._rendezvous, self._opened_ns = rendezvous, 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, name="barrier", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def opened_ns(self) -> int:
        """When all tasks were ready; 0 if they are not yet."""
        if self._error:
            raise self._error
        return self._opened_ns

    def _wait(self) -> None:
        try:
            self._rendezvous.start_together()
            self._opened_ns = clock_ns()
        except BaseException as error:
            self._error = error


def _start_worker(context: TaskContext, master: str) -> "tuple[SparkHome, subprocess.Popen[bytes]]":
    check_java()
    job = context.job
    if context.files is None:
        raise RunError("a Spark worker needs a scratch directory")
    home = SparkHome(job, context.files.scratch)
    memory = heap_mib_of(job, "executor_memory") + _WORKER_OVERHEAD_MIB
    arguments = ["--host", job.address, "--cores", str(cores_of(job)), "--memory", f"{memory}m"]
    return home, start_jvm(home, WORKER, DAEMON_OPTIONS, [*arguments, *port_arguments(job), master])


def _check(process: "subprocess.Popen[bytes]", ends: ExecutorEnds, channel: WorkerChannel) -> None:
    """Raise RunError if the Spark worker has ended; tell the driver if its executor has."""
    check_running(process)
    for why in ends.new():
        channel.executor_ended(why)


def _wait_for_executor(
    recorder: Recorder, channel: WorkerChannel, process: "subprocess.Popen[bytes]", ends: ExecutorEnds
) -> Outcome | None:
    """Wait until the executor runs tasks of the driver, which it does in a Python process of its own.

    A worker that is restarted alone gets the steps that were made meanwhile. Returns what `_receive` does.
    """
    deadline_ns = clock_ns() + _JOIN_NS
    while clock_ns() < deadline_ns:
        if outcome := _receive(recorder, channel):
            return outcome
        _check(process, ends, channel)
        with suppress(psutil.Error):
            executors = psutil.Process(process.pid).children()
            if any(executor.children() for executor in executors):
                break
    return None


def _receive(recorder: Recorder, channel: WorkerChannel) -> Outcome | None:
    """Record what the next message of the driver says; returns what this task reports if the run is over."""
    match channel.receive():
        case Steps(steps):
            for step in steps:
                _record(recorder, channel, step)
        case Work() as work:
            start, end = channel.own_ns(work.start_ns), channel.own_ns(work.end_ns)
            recorder.write(
                RecordKind(work.kind),
                start,
                end - start,
                update=work.update,
                loss=work.loss,
                accuracy=work.accuracy,
                flags=work.flags,
            )
        case Busy(kind):
            recorder.set_busy(kind)
        case Done(outcome):
            outcome.ended_ns = channel.own_ns(outcome.ended_ns)
            outcome.reached_ns = channel.own_ns(outcome.reached_ns) if outcome.reached_ns else 0
            return outcome
    return None


def _record(recorder: Recorder, channel: WorkerChannel, step: StepTimes) -> None:
    """Write one step: the wait for its task, then the phases one after the other, then the wait for its end."""
    record, start, end = recorder.current, channel.own_ns(step.start_ns), channel.own_ns(step.end_ns)
    record.step, record.start_ns = step.step, start
    if not step.launch_ns:
        # The worker was away, and another one did its part.
        recorder.write(RecordKind.WAIT, start, end - start)
        recorder.end_step(end, step.update, step.loss)
        return
    at = channel.own_ns(step.launch_ns)
    recorder.write(RecordKind.WAIT, start, at - start)
    record.pull_start_ns, record.pull_end_ns = at, at + step.pull_ns
    at += step.pull_ns
    if step.data_ns:
        recorder.write(RecordKind.DATA, at, step.data_ns)
    at += step.data_ns
    record.compute_start_ns, record.compute_end_ns = at, at + step.compute_ns
    at += step.compute_ns
    if step.gc_ns:
        recorder.write(RecordKind.GC, at, step.gc_ns)
    at += step.gc_ns
    record.push_start_ns, record.push_end_ns = at, at + step.push_ns
    at += step.push_ns
    record.wait_start_ns, record.wait_end_ns = min(at, end), end
    recorder.write(RecordKind.SCHEDULE, start, step.scheduler_ns)
    recorder.end_step(end, step.update, step.loss)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the worker, its executor and the Python processes of that."""
    with suppress(psutil.Error):
        below = psutil.Process(process.pid).children(recursive=True)
        stop(process)
        for child in below:
            with suppress(psutil.Error):
                child.kill()
