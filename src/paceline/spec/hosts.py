"""`KIND[:ARGUMENT]`: which kind of hosts a run asks for, and what that kind needs to know, e.g. `ssh:hosts.toml`."""

from typing import NamedTuple


class HostsChoice(NamedTuple):
    kind: str
    argument: str | None
    """What follows the first colon; None if there is no colon."""

    @classmethod
    def parse(cls, text: str) -> "HostsChoice":
        kind, colon, argument = text.partition(":")
        return cls(kind, argument if colon else None)
