"""How fast this worker can calculate at best: by this, a step's arithmetic is told from what surrounds it."""

import time

import numpy as np

_SIDE = 64  # Products of this size are made by one thread, whatever the library.
_PRODUCTS = 50
_ROUNDS = 5


def operations_per_cpu_s() -> float:
    """Additions and multiplications in a second of one thread's CPU time, in plain matrix products; takes some ms."""
    a = np.ones((_SIDE, _SIDE), np.float32)
    out = np.empty_like(a)
    best = 0.0
    for _ in range(_ROUNDS):
        # CPU time: what others take of the core is no part of how fast it is.
        start = time.thread_time()
        for _ in range(_PRODUCTS):
            np.dot(a, a, out=out)
        best = max(best, _PRODUCTS * 2 * _SIDE**3 / max(time.thread_time() - start, 1e-9))
    return best
