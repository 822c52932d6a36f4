"""The process of one task: it runs an engine and always sends an outcome or a traceback before it exits."""

import argparse
import faulthandler
import logging
import os
import sys
import traceback
from pathlib import Path

from paceline.messages.stack_signal import DUMP_SIGNAL
from paceline.task import connections
from paceline.task.channel import Channel
from paceline.task.lifeline import die_with_parent, join_cgroups
from paceline.task.summarize_error import summarize_error
from paceline.train.context import Job, Outcome, TaskContext


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
    try:
        channel.finished(_run(channel, Path(arguments.records)))
        code = 0
    except BaseException as error:
        logging.getLogger("paceline").error("%s", traceback.format_exc())
        channel.failed(summarize_error(error), _traceback(error, channel))
        code = 1
    sys.stderr.flush()
    # Not sys.exit: threads of the framework may hang while they clean up, and everything that matters is sent already.
    os._exit(code)


def _run(channel: "Channel[Job]", records: Path) -> Outcome:
    from paceline.data.registry import load
    from paceline.entry_points import load_object
    from paceline.recording.recorder import Recorder, SilentRecorder
    from paceline.workloads.model import Model
    from paceline.workloads.registry import workload
    from paceline.workloads.user_workload import user_examples

    job = channel.order
    connections.watch(job.address, lambda address, silent_s: _fail_disconnected(channel, address, silent_s))
    spec = workload(job.workload, job.size)
    context = TaskContext(
        job=job,
        workload=spec,
        # A workload with a model of the user's own has none yet: the engine builds it and replaces this placeholder.
        model=spec.model or Model((1,), ()),
        data=load(spec.dataset, job.data, job.examples) if spec.dataset else user_examples(spec),
        recorder=(Recorder if job.record else SilentRecorder)(records),
        rendezvous=channel,
    )
    outcome: Outcome = load_object(job.entry_point)(context)
    return outcome


def _fail_disconnected(channel: "Channel[Job]", address: str, silent_s: float) -> None:
    """End this process with an error: the main thread waits for an answer that will not come."""
    line = f"lost the connection to {channel.tasks_at(address)}: {address} has not answered for {silent_s:.0f} s"
    logging.getLogger("paceline").error("%s", line)
    channel.failed(line, "")
    os._exit(1)


def _traceback(error: BaseException, channel: "Channel[Job]") -> str:
    """The traceback; for a user's own workload only the part that starts in the user's code."""
    from paceline.workloads.user_workload import code_path, is_user_workload, user_traceback

    name = channel.order.workload
    return user_traceback(error, code_path(name)) if is_user_workload(name) else traceback.format_exc()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="paceline.task")
    parser.add_argument("--records", required=True)
    parser.add_argument("--stacks", required=True)
    parser.add_argument("--cgroup", action="append", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
