"""Turns a process that was just forked into the process of a command, as if Python had been started with it."""

import ctypes
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NoReturn

_CLONE_NEWNET = 0x40000000
_ARG_START, _ARG_END = 48, 49
"""Numbers of the fields of /proc/self/stat with the addresses between which the command line is stored."""


_forked = False


def was_forked() -> bool:
    """Whether this process was forked by a fork server, so that its modules are there already."""
    return _forked


def run_command(
    argv: Sequence[str], stdio: Sequence[int], network_namespace: str | None, variables: Mapping[str, str]
) -> NoReturn:
    """Run `python -m MODULE ARGUMENTS` with these descriptors as stdin, stdout and stderr, then end this process.

    `variables` are added to its environment.
    """
    global _forked
    _forked, code = True, 1
    try:
        os.setsid()
        for number, descriptor in enumerate(stdio):
            os.dup2(descriptor, number)
            os.close(descriptor)
        if network_namespace:
            _enter_network(network_namespace)
        os.environ.update(variables)
        show_command(argv)
        _reseed()
        _, _, module, *arguments = argv
        _main_module(module, arguments).main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def reset_signals() -> None:
    """Undo what the loop of the fork server set."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def show_command(argv: Sequence[str]) -> None:
    """Let `ps` show this command: overwrites the command line of the fork server, as far as there is space."""
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # The list begins with the third field; the first one has number 1.
    start, end = int(stat[_ARG_START - 3]), int(stat[_ARG_END - 3])
    if start:  # 0: the system does not tell.
        text = b"\0".join(os.fsencode(word) for word in argv)[: end - start - 1]
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def _enter_network(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter the network namespace: {os.strerror(number)}", path)


def _reseed() -> None:
    """Give this process random numbers of its own where a module was seeded at import; `random` does so by itself."""
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()


def _main_module(name: str, arguments: Sequence[str]) -> ModuleType:
    """The module that `python -m NAME` runs, set up as the main module of this process."""
    spec = find_spec(name)
    if spec and spec.submodule_search_locations is not None:
        name += ".__main__"
    module = importlib.import_module(name)
    sys.modules["__main__"] = module
    sys.argv = [module.__file__ or name, *arguments]
    return module
