"""Notices that a script starts ranks of its own in other processes, which are not observed."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

_LAUNCHERS = frozenset({
    "torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun", "torch.distributed.run", "torch.distributed.launch",
    "accelerate.commands.launch",
})  # fmt: skip
_FIRST_WORDS = 5
"""Of a command, among which the name of a launcher is looked for; the others are arguments of the script."""


def observe_processes(on_ranks: Callable[[], None]) -> None:
    """Call the function whenever the script starts a launcher or a process that gets a rank from the script."""
    original = subprocess.Popen.__init__

    @wraps(original)
    def __init__(self: Any, args: Any, *others: Any, **options: Any) -> None:
        if starts_ranks(args, options.get("env")):
            on_ranks()
        original(self, args, *others, **options)

    subprocess.Popen.__init__ = __init__  # type: ignore[method-assign]


def starts_ranks(command: object, environment: Mapping[str, str] | None) -> bool:
    """Whether a command is a launcher of ranks, or gets another rank than this process."""
    words = command.split() if isinstance(command, str) else command if isinstance(command, Sequence) else ()
    names = [os.path.basename(word) for word in words[:_FIRST_WORDS] if isinstance(word, str)]
    if not _LAUNCHERS.isdisjoint(names):
        return True
    wanted = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    if not isinstance(environment, Mapping) or not all(name in environment for name in wanted):
        return False
    return any(environment[name] != os.environ.get(name) for name in wanted)
