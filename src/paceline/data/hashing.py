"""Random bits without a generator: SplitMix64 of a key and a counter.

A number depends on its own counter alone, so it is the same whoever draws it, in whatever order and company.
"""

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

_STEP = 0x9E37_79B9_7F4A_7C15
_ROUNDS = ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB))
_LAST = 31
_WORD = 2**64 - 1


def key(*parts: int) -> int:
    """One key for several numbers, such as a seed and an epoch; their order matters."""
    state = 0
    for part in parts:
        state = _mixed((state ^ (part & _WORD)) + _STEP & _WORD)
    return state


def bits(of: int, counters: NDArray[np.integer]) -> Bits:
    """64 random bits for each counter."""
    mixed = counters.astype(np.uint64)
    mixed *= np.uint64(_STEP)  # arrays wrap around, as they should here
    mixed += np.uint64(of)
    for shift, factor in _ROUNDS:
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(_LAST)
    return mixed


def halves(words: Bits) -> NDArray[np.uint32]:
    """Each word as two numbers of 32 bits, along the last axis; the low one first on any machine."""
    return words.astype("<u8", copy=False).view("<u4")


def quarters(words: Bits) -> NDArray[np.uint16]:
    """Each word as four numbers of 16 bits, along the last axis."""
    return words.astype("<u8", copy=False).view("<u2")


def _mixed(word: int) -> int:
    for shift, factor in _ROUNDS:
        word = (word ^ word >> shift) * factor & _WORD
    return word ^ word >> _LAST
