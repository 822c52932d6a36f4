"""Makes TensorFlow number its requests from one random generator per process, so that the numbers do not repeat.

TensorFlow gives each request to a task a 64-bit number, and a task rejects a number that is among the last 100,000 it
has received. The number comes from `tsl::random::ThreadLocalNew64`, whose generator belongs to the thread and is seeded
with only 32 random bits. TensorFlow starts a new thread for every run of a session, so each run draws from a new seed:
there are only 2**32 different numbers, and among some ten thousand requests two are equal by chance. Sometimes
TensorFlow never returns from the rejection that follows: if the worker's own task rejects its part of a step before the
part of a server has been sent, the server's part is never cancelled and waits forever for the worker's tensors.

`tsl::random::New64` has the same signature and draws from one generator for the whole process, with a period of
2**19937 - 1. No setting of TensorFlow selects it. So this module replaces the address of the first function by that of
the second one in the table of imported functions of TensorFlow's runtime, in the memory of this process only.
"""

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

_RUNTIME, _FRAMEWORK = "libtensorflow_cc.so.2", "libtensorflow_framework.so.2"
_NEW_REQUEST = "_ZN10tensorflow18GetUniqueRequestIdEv"
_PER_THREAD, _PER_PROCESS = "_ZN3tsl6random16ThreadLocalNew64Ev", "_ZN3tsl6random5New64Ev"

# Of <dlfcn.h> and <elf.h>; a 64-bit system is assumed, the only kind that TensorFlow supports.
_RTLD_DI_LINKMAP = 2
_DT_NULL, _DT_PLTRELSZ, _DT_PLTGOT = 0, 2, 3
_RELOCATION_BYTES, _ENTRY_BYTES = 24, 8
_RESERVED_ENTRIES = 3
"""The entries at the start of the table that belong to the dynamic linker."""


class UnsupportedError(Exception):
    """This build of TensorFlow, or this system, differs from what is expected."""


class _LinkMap(ctypes.Structure):
    """The public part of `struct link_map`: a loaded library."""

    _fields_ = (("base", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dynamic", ctypes.c_void_p))


@cache
def use_one_generator() -> bool:
    """Let all requests of this process get their numbers from one generator; False, with a line in the log, if this
    system does not allow it."""
    try:
        _redirect()
    except (UnsupportedError, OSError, AttributeError) as error:
        print(
            f"Request numbers of TensorFlow may repeat, so a run of more than 50,000 updates may hang ({error}): "
            "use --checkpoint-every 60s --on-failure restart for long runs",
            file=sys.stderr,
            flush=True,
        )
        return False
    return True


def _redirect() -> None:
    if not sys.platform.startswith("linux"):
        raise UnsupportedError("only possible on Linux")
    folder = Path(tf.sysconfig.get_lib())
    # The libraries are loaded already: RTLD_NOLOAD never loads a second copy.
    runtime, framework = (ctypes.CDLL(str(folder / name), os.RTLD_NOLOAD) for name in (_RUNTIME, _FRAMEWORK))
    getattr(runtime, _NEW_REQUEST)()  # The dynamic linker may fill in an entry only at its first use.
    entries = _import_table(runtime)
    found = np.flatnonzero(entries == _address(framework, _PER_THREAD))
    if len(found) != 1:
        raise UnsupportedError(f"{len(found)} entries for ThreadLocalNew64 in {_RUNTIME}")
    if not _is_writable(entries.ctypes.data + int(found[0]) * _ENTRY_BYTES):
        raise UnsupportedError(f"imported functions of {_RUNTIME} are read-only")
    # An aligned write of eight bytes: a thread that calls the function meanwhile finds one address or the other.
    entries[found[0]] = _address(framework, _PER_PROCESS)


def _address(library: ctypes.CDLL, function: str) -> int:
    return ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0


def _import_table(library: ctypes.CDLL) -> Any:
    """The addresses of the functions that the library imports: its `.got.plt`, as an array in place."""
    loaded = ctypes.POINTER(_LinkMap)()
    if ctypes.CDLL(None).dlinfo(ctypes.c_void_p(library._handle), _RTLD_DI_LINKMAP, ctypes.byref(loaded)):
        raise UnsupportedError("dlinfo failed")
    dynamic = _dynamic_section(loaded.contents.dynamic)
    if _DT_PLTGOT not in dynamic or _DT_PLTRELSZ not in dynamic:
        raise UnsupportedError(f"{_RUNTIME} has no table of imported functions")
    count = _RESERVED_ENTRIES + dynamic[_DT_PLTRELSZ] // _RELOCATION_BYTES
    return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(dynamic[_DT_PLTGOT]))


def _dynamic_section(address: int) -> dict[int, int]:
    """The tags and values of a library's dynamic section, with addresses as the dynamic linker relocated them."""
    values: dict[int, int] = {}
    while True:
        tag, value = (ctypes.c_uint64 * 2).from_address(address)
        if tag == _DT_NULL:
            return values
        values[tag] = value
        address += 2 * _ENTRY_BYTES


def _is_writable(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions = line.split()[:2]
        start, end = (int(bound, 16) for bound in span.split("-"))
        if start <= address < end:
            return "w" in permissions
    return False
