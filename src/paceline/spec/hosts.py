"""`KIND[:ARGUMENT]`: which kind of hosts a run asks for, and what that kind needs to know, e.g. `ssh:hosts.toml`."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from paceline.entry_points import registered_names

GROUP = "paceline.hosts"
"""The entry-point group of the kinds of hosts."""


class HostsChoice(NamedTuple):
    kind: str
    argument: str | None
    """What follows the first colon; None if there is no colon."""

    @classmethod
    def parse(cls, text: str) -> "HostsChoice":
        kind, colon, argument = text.partition(":")
        return cls(kind, argument if colon else None)


def join_arguments(parts: Sequence[str]) -> list[str]:
    """The choices in a comma-separated list, given its parts: `local,ssh:a,b` is `local` and `ssh:a,b`."""
    return join_arguments_of(parts, registered_names(GROUP))


def join_arguments_of(parts: Sequence[str], kinds: Collection[str]) -> list[str]:
    """As `join_arguments`, with these kinds.

    A part that begins with the name of a kind, alone or followed by a colon, begins a new choice. Any other part
    belongs to the argument before it. Without an argument before it, it is a choice by itself: a misspelled kind.
    """
    choices: list[str] = []
    for part in parts:
        continues = choices and ":" in choices[-1] and HostsChoice.parse(part).kind not in kinds
        if continues:
            choices[-1] += f",{part}"
        else:
            choices.append(part)
    return choices
