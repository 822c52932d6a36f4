"""Whether what an agent says can be true. Frames of the right form may still speak of tasks that it does not have.

Today's agents run our own code; what they say still passes through hosts that are not the controller's.
"""

import math
from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from paceline.agent import protocol
from paceline.train.context import Outcome
from paceline.train.recorder import RECORD_BYTES


def why_incredible(host: str, message: protocol.AgentSays, home: Mapping[str, str]) -> str | None:
    """What is wrong with a message from a host, in a line; `home` says which task is where."""
    match message:
        case protocol.Hello() if message.host != host or message.cores < 1:
            return f"it says that it is {message.host!r} with {message.cores} cores"
        case protocol.Samples(samples):
            return next((wrong for sample in samples if (wrong := _wrong_sample(sample))), None)
        case (
            protocol.TaskStarted(task)
            | protocol.TaskSaid(task)
            | protocol.TaskExited(task)
            | protocol.Records(task)
            | protocol.Log(task)
        ) if home.get(task) != host:
            return f"it speaks of {task!r}, which is not there"
        case protocol.Records(task, data) if len(data) % RECORD_BYTES:
            return f"it sends {len(data)} bytes as records of {task}"
        case protocol.TaskSaid(task, protocol.Attached(_, name)) if PurePath(name).name != name or "\0" in name:
            return f"it sends a file of {task} named {name!r}"
        case protocol.TaskSaid(task, protocol.Finished(raw)):
            return _wrong_outcome(task, raw)
    return None


def _wrong_sample(sample: protocol.HostSample) -> str | None:
    seconds = (sample.cpu_s, *sample.cores_busy_s, *(task.cpu_s for task in sample.tasks))
    return None if all(map(math.isfinite, seconds)) else "it says that a core was busy for no number of seconds"


def _wrong_outcome(task: str, raw: msgspec.Raw) -> str | None:
    try:
        outcome = msgspec.msgpack.decode(raw, type=Outcome)
    except protocol.UNREADABLE as error:
        return f"the outcome of {task} cannot be read: {error}"
    return f"{task} says that it made {outcome.steps} steps" if outcome.steps < 0 else None
