"""Messages between a task and the controller, relayed by the agent of the task's host.

Times are nanoseconds of the sender's monotonic clock.
"""

from typing import Annotated

import msgspec

from paceline.errors import shorten
from paceline.messages.framing import Message
from paceline.messages.link_probe import LinksMeasured, MeasureLinks


class Bound(Message, frozen=True):
    """A task has opened its ports, so that other tasks can connect to it."""

    addresses: dict[str, str]
    """Purpose (such as parameters) -> address."""


class Ready(Message, frozen=True):
    """A task is connected to its peers, has compiled its model and waits for Go."""


class ThreadsChosen(Message, frozen=True):
    """A worker has measured that it computes faster with another number of threads than it was given."""

    threads: Annotated[int, msgspec.Meta(ge=1, le=4096)]


class Finished(Message, frozen=True):
    """A task has completed."""

    outcome: msgspec.Raw
    """A train.context.Outcome."""


MAX_LINE_CHARACTERS = 2_000
MAX_TRACEBACK_CHARACTERS = 100_000
"""The most that is sent of an error: a user's exception may contain a whole array."""


class Failed(Message, frozen=True):
    """A task ends with an error. `user_line` is the one line that the user is shown."""

    user_line: str
    traceback: str
    permanent: bool = False
    """Whether another attempt would fail in the same way: the error is not a lost peer, connection or memory."""
    in_workload: bool = False
    """Whether the cause is the user's own workload."""

    def shortened(self) -> "Failed":
        """This message with texts of limited length."""
        return Failed(
            shorten(self.user_line, MAX_LINE_CHARACTERS),
            shorten(self.traceback, MAX_TRACEBACK_CHARACTERS),
            self.permanent,
            self.in_workload,
        )


class Disconnected(Message, frozen=True):
    """A task has lost its peers, or has received Disconnect: it has closed its connections and waits for Reassign."""

    user_line: str


class Attached(Message, frozen=True):
    """A part of a file that a task adds to the run directory; parts of one file are sent in order."""

    kind: str
    name: str
    """The path of the file, relative to the task's own folder."""
    data: bytes
    last: bool
    """Whether this is the last part of the file."""


HOST = "host"
"""The purpose under which Peers contains the address of a task's host, without a port."""
HOST_NAME = "host name"
"""The purpose under which Peers contains the name of a task's host in the run, such as h1."""


class Peers(Message, frozen=True):
    """Addresses of all tasks."""

    addresses: dict[str, dict[str, str]]
    """Task -> purpose -> address; every task has one for the purpose HOST, and the name of the host for HOST_NAME."""


class Go(Message, frozen=True):
    """All tasks are ready: the training clock starts now."""


class Halt(Message, frozen=True):
    """Stop after the current step and finish with Finished, not with an error."""


class LastStep(Message, frozen=True):
    """All ranks of a user's script end after this number of steps. The first rank decides, the controller relays."""

    step: Annotated[int, msgspec.Meta(ge=0)]


class Disconnect(Message, frozen=True):
    """Close the connections to all peers, some of which have ended, and answer with Disconnected."""


class Reassign(Message, frozen=True):
    """Start again with new peers. `job` is what a new process of this task would be given."""

    job: msgspec.Raw


class MayExit(Message, frozen=True):
    """The agent has measured the task for the last time, so the task may exit. Only the agent sends this."""


FromTask = Bound | ThreadsChosen | Ready | Finished | Failed | Disconnected | Attached | LinksMeasured | LastStep
ToTask = Peers | Go | Halt | LastStep | Disconnect | Reassign | MayExit | MeasureLinks
