"""Random bits as a function of a key and a counter (SplitMix64), without a generator that has state.

The bits for a counter depend on the key and this counter only, so every process gets the same ones, in any order.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

# The constants of SplitMix64.
_INCREMENT = 0x9E37_79B9_7F4A_7C15
_ROUNDS = ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB))
_LAST_SHIFT = 31
_MASK = 2**64 - 1


def make_key(*parts: int) -> int:
    """One key made from several numbers, such as a seed and an epoch; their order matters."""
    state = 0
    for part in parts:
        state = _mix((state ^ (part & _MASK)) + _INCREMENT & _MASK)
    return state


def random_bits(key: int, counters: NDArray[np.integer]) -> Words:
    """64 random bits for each counter."""
    mixed = counters.astype(np.uint64)
    mixed *= np.uint64(_INCREMENT)  # Integer arrays wrap around, which is intended here.
    mixed += np.uint64(key)
    for shift, factor in _ROUNDS:
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(_LAST_SHIFT)
    return mixed


def as_uint32(words: Words) -> NDArray[np.uint32]:
    """Each word as two 32-bit numbers along the last axis; the low one comes first on any machine."""
    return words.astype("<u8", copy=False).view("<u4")


def as_uint16(words: Words) -> NDArray[np.uint16]:
    """Each word as four 16-bit numbers along the last axis; the lowest one comes first on any machine."""
    return words.astype("<u8", copy=False).view("<u2")


def _mix(word: int) -> int:
    for shift, factor in _ROUNDS:
        word = (word ^ word >> shift) * factor & _MASK
    return word ^ word >> _LAST_SHIFT
