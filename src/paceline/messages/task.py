"""Messages between a task and the controller. The agent of the task's host relays them.

Times are nanoseconds of the sender's monotonic clock.
"""

import msgspec

from paceline.messages.framing import Message


class Bound(Message, frozen=True):
    """A task holds its ports and can be addressed by others."""

    addresses: dict[str, str]


class Ready(Message, frozen=True):
    """A task is connected and has everything compiled; it waits for Go."""


class Finished(Message, frozen=True):
    """A task did all it had to do. `outcome` is engine-neutral (see train.context.Outcome)."""

    outcome: msgspec.Raw


class Failed(Message, frozen=True):
    """A task ends with an error. `user_line` is the one line a user should see."""

    user_line: str
    traceback: str


class Disconnected(Message, frozen=True):
    """A task cannot go on with its peers as they are: it has let go of them and waits to be given others."""

    user_line: str


class Attached(Message, frozen=True):
    """A file a task leaves with the run: `name` is relative to the task's own folder."""

    kind: str
    name: str
    data: bytes
    last: bool


HOST = "host"
"""The purpose of an address that is only a host's own."""


class Peers(Message, frozen=True):
    """Addresses of all tasks, by task and purpose; HOST is among them."""

    addresses: dict[str, dict[str, str]]


class Go(Message, frozen=True):
    """All are ready: the clock starts now."""


class Halt(Message, frozen=True):
    """Stop after the step under way and finish in good order."""


class Disconnect(Message, frozen=True):
    """Let go of all peers and say so: some of them are gone."""


class Reassign(Message, frozen=True):
    """Begin again with new peers. `job` is what a process that begins now would be given."""

    job: msgspec.Raw


class MayExit(Message, frozen=True):
    """The agent has measured the task a last time: it may end. Only the agent says this."""


FromTask = Bound | Ready | Finished | Failed | Disconnected | Attached
ToTask = Peers | Go | Halt | Disconnect | Reassign | MayExit
