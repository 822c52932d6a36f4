"""Whether what an agent says can be true. Frames of the right form may still speak of tasks that it does not have.

Today's agents run our own code; what they say still passes through hosts that are not the controller's.
"""

import math
from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from paceline import messages
from paceline.recording.recorder import RECORD_BYTES
from paceline.train.context import Outcome


def invalid_reason(host: str, message: messages.FromAgent, home: Mapping[str, str]) -> str | None:
    """What is wrong with a message from a host, in a line; `home` says which task is where."""
    match message:
        case messages.Hello() if message.host != host or message.cores < 1:
            return f"it says that it is {message.host!r} with {message.cores} cores"
        case messages.Samples(samples):
            return next((wrong for sample in samples if (wrong := _wrong_sample(sample))), None)
        case (
            messages.TaskStarted(task)
            | messages.TaskMessage(task)
            | messages.TaskExited(task)
            | messages.Records(task)
            | messages.Log(task)
        ) if home.get(task) != host:
            return f"it speaks of {task!r}, which is not there"
        case messages.Records(task, data) if len(data) % RECORD_BYTES:
            return f"it sends {len(data)} bytes as records of {task}"
        case messages.TaskMessage(task, messages.Attached(_, name)) if PurePath(name).name != name or "\0" in name:
            return f"it sends a file of {task} named {name!r}"
        case messages.TaskMessage(task, messages.Finished(raw)):
            return _wrong_outcome(task, raw)
    return None


def _wrong_sample(sample: messages.HostSample) -> str | None:
    seconds = (sample.cpu_s, *sample.cores_busy_s, *(task.cpu_s for task in sample.tasks))
    return None if all(map(math.isfinite, seconds)) else "it says that a core was busy for no number of seconds"


def _wrong_outcome(task: str, raw: msgspec.Raw) -> str | None:
    try:
        outcome = msgspec.msgpack.decode(raw, type=Outcome)
    except messages.UNREADABLE as error:
        return f"the outcome of {task} cannot be read: {error}"
    return f"{task} says that it made {outcome.steps} steps" if outcome.steps < 0 else None
