"""Checks messages of agents for values that cannot be true, e.g. records of a task that runs on another host.

Agents run Paceline's own code, but on hosts that the controller does not control.
"""

import math
from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from paceline import messages
from paceline.recording.layout import RECORD_BYTES
from paceline.train.context import Outcome


def invalid_reason(host: str, message: messages.FromAgent, task_hosts: Mapping[str, str]) -> str | None:
    """Why a message from `host` is invalid, in one line; None if it is valid. `task_hosts`: host of each task."""
    match message:
        case messages.Hello() if message.host != host or message.cores < 1:
            return f"its Hello claims to be {message.host!r} with {message.cores} cores"
        case messages.Samples(samples):
            return next((reason for sample in samples if (reason := _invalid_sample(sample))), None)
        case (
            messages.TaskStarted(task)
            | messages.TaskMessage(task)
            | messages.TaskExited(task)
            | messages.Records(task)
            | messages.Log(task)
        ) if task_hosts.get(task) != host:
            return f"it sent a message about {task!r}, which does not run there"
        case messages.Records(task, data) if len(data) % RECORD_BYTES:
            return f"it sent {len(data)} bytes as records of {task}, which is not a whole number of records"
        case messages.TaskMessage(task, messages.Attached(_, name)) if PurePath(name).name != name or "\0" in name:
            return f"it sent a file of {task} with the invalid name {name!r}"
        case messages.TaskMessage(task, messages.Finished(raw)):
            return _invalid_outcome(task, raw)
    return None


def _invalid_sample(sample: messages.HostSample) -> str | None:
    seconds = (sample.cpu_s, *sample.cores_busy_s, *(task.cpu_s for task in sample.tasks))
    if not all(map(math.isfinite, seconds)):
        return "it sent a CPU time that is not a finite number"
    return None if math.isfinite(sample.load_average or 0.0) else "it sent a load average that is not a finite number"


def _invalid_outcome(task: str, raw: msgspec.Raw) -> str | None:
    try:
        outcome = msgspec.msgpack.decode(raw, type=Outcome)
    except messages.DECODE_ERRORS as error:
        return f"the outcome of {task} cannot be read: {error}"
    return f"the outcome of {task} claims {outcome.steps} steps" if outcome.steps < 0 else None
