"""The process of one task: it runs an engine and always sends an outcome or a traceback before it exits."""

import argparse
import faulthandler
import logging
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.errors import (
    PacelineError,
    RunError,
    ScriptError,
    UsageError,
    UserCodeError,
    WorkloadError,
    message_of,
    shorten,
)
from paceline.files.reference import cache_directory
from paceline.files.store import FileStore
from paceline.forkserver.lifeline import die_with_parent
from paceline.messages.stack_signal import DUMP_SIGNAL
from paceline.task import connections
from paceline.task.cgroups import join_cgroups
from paceline.task.channel import Channel
from paceline.task.classify_error import is_permanent
from paceline.task.summarize_error import step_of, summarize_error
from paceline.train.context import Job, Outcome, TaskContext

if TYPE_CHECKING:
    from paceline.recording.recorder import Recorder


def main() -> None:
    die_with_parent()
    arguments = _arguments()
    join_cgroups(arguments.cgroup)
    faulthandler.enable()
    # Write the stacks of all threads when the agent sends the signal; this works even if the main thread is stuck.
    if DUMP_SIGNAL is not None:
        faulthandler.register(DUMP_SIGNAL, file=open(arguments.stacks, "ab"), all_threads=True)  # noqa: SIM115
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    channel = Channel.take_over_stdio(Job)
    files = FileStore(cache_directory(), Path(arguments.scratch))
    try:
        channel.finished(_run(channel, Path(arguments.records), files))
        code = 0
    except BaseException as error:
        is_script = isinstance(error, ScriptError)
        shown = (error.traceback or str(error)) if isinstance(error, ScriptError) else shorten(traceback.format_exc())
        logging.getLogger("paceline").error("%s", shown)
        permanent = is_permanent((error.__cause__ if is_script else None) or error, channel.order.may_pass)
        in_workload = permanent and not is_script and _is_in_workload(error, channel.order)
        traceback_text = _traceback(error, channel.order, files)
        line = summarize_error(error)
        if in_workload and not channel.has_started and not isinstance(error, PacelineError):
            line = f"{line} ({_place(error, channel.order, files)})"
        elif permanent and not traceback_text:
            line += step_of(error)
        channel.failed(line, traceback_text, permanent=permanent, in_workload=in_workload)
        code = 1
    sys.stderr.flush()
    # Not sys.exit: threads of the framework may hang while they clean up, and everything that matters is sent already.
    os._exit(code)


def _run(channel: "Channel[Job]", records: Path, files: FileStore) -> Outcome:
    from paceline.recording.recorder import Recorder, SilentRecorder
    from paceline.train.job_data import workload_and_data
    from paceline.workloads.model import Model

    job = channel.order
    recorder = (Recorder if job.record else SilentRecorder)(records)
    if job.script:
        return _run_script(channel, recorder, files)
    connections.watch(job.address, lambda address, silent_s: _fail_disconnected(channel, address, silent_s))
    spec, data = workload_and_data(job, files)
    context = TaskContext(
        job=job,
        workload=spec,
        # A workload with a model of the user's own has none yet: the engine builds it and replaces this placeholder.
        model=spec.model.changed(init=job.init, activation=job.activation) if spec.model else Model((1,), ()),
        data=data,
        recorder=recorder,
        rendezvous=channel,
        files=files,
    )
    outcome: Outcome = _load_engine(job)(context)
    return outcome


def _run_script(channel: "Channel[Job]", recorder: "Recorder", files: FileStore) -> Outcome:
    """Run a user's script. Its connections are not watched: the script may wait for others as long as it likes."""
    from paceline.data.empty import EmptyDataset
    from paceline.workloads.model import Model
    from paceline.workloads.workload import Workload

    job = channel.order
    context = TaskContext(
        job=job,
        workload=Workload(name=job.workload, train_examples=0),
        model=Model((1,), ()),
        data=EmptyDataset(),
        recorder=recorder,
        rendezvous=channel,
        files=files,
    )
    return _load_engine(job)(context)


def _load_engine(job: Job) -> Callable[[TaskContext], Outcome]:
    """The engine's function for this task; RunError if it or its framework cannot be imported."""
    from paceline.entry_points import load_object

    try:
        function: Callable[[TaskContext], Outcome] = load_object(job.entry_point)
    except Exception as error:
        cause = f"{type(error).__name__}: {message_of(error)}"
        raise RunError(
            f"engine {job.engine} is installed, but importing it fails ({cause}): repair or reinstall its packages"
        ) from error
    return function


def _fail_disconnected(channel: "Channel[Job]", address: str, silent_s: float) -> None:
    """End this process with an error: the main thread waits for an answer that will not come."""
    line = f"lost the connection to {channel.tasks_at(address)}: {address} has not answered for {silent_s:.0f} s"
    logging.getLogger("paceline").error("%s", line)
    channel.failed(line, "")
    os._exit(1)


def _is_in_workload(error: BaseException, job: Job) -> bool:
    """Whether the user's own workload is the cause of an error that would come again: all errors but those that
    Paceline raises about something else."""
    from paceline.workloads.user_workload import is_user_workload

    is_other = isinstance(error, PacelineError) and not isinstance(error, UsageError | WorkloadError)
    return is_user_workload(job.workload) and not is_other


def _place(error: BaseException, job: Job, files: FileStore) -> str:
    """Where an exception was raised before training began: the line of the user's code, if it passes through it."""
    from paceline.train.job_data import workload_name
    from paceline.workloads.user_workload import place_in, user_code

    place = place_in(error, user_code(workload_name(job, files)))
    return place or "when the workload was tried on one batch"


def _traceback(error: BaseException, job: Job, files: FileStore) -> str:
    """The traceback; for a user's own workload only the part that starts in the user's code.

    Empty for an error that Paceline raised about a user's workload: its line says everything.
    """
    if isinstance(error, ScriptError):
        return error.traceback
    from paceline.train.job_data import workload_name
    from paceline.workloads.user_workload import is_user_workload, passes_through, user_code, user_traceback

    name = workload_name(job, files)
    if not is_user_workload(name):
        return shorten(traceback.format_exc())
    files_of_user = user_code(name)
    if isinstance(error, UserCodeError):
        return error.traceback
    is_own = isinstance(error, PacelineError) and not passes_through(error, files_of_user)
    return "" if is_own else user_traceback(error, files_of_user)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="paceline.task")
    parser.add_argument("--records", required=True)
    parser.add_argument("--stacks", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--cgroup", action="append", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
