"""Measures the peak speed of arithmetic on this host, to tell the arithmetic of a step from framework overhead."""

import time

import numpy as np

_SIDE = 64  # BLAS libraries use one thread for products of this size.
_PRODUCTS = 50
_ROUNDS = 5


def operations_per_cpu_s() -> float:
    """Additions and multiplications per second of CPU time of one thread, in matrix products. Takes a few ms."""
    a = np.ones((_SIDE, _SIDE), np.float32)
    out = np.empty_like(a)
    best = 0.0
    for _ in range(_ROUNDS):
        # CPU time instead of wall time, so that other programs on the core do not count.
        start = time.thread_time()
        for _ in range(_PRODUCTS):
            np.dot(a, a, out=out)
        best = max(best, _PRODUCTS * 2 * _SIDE**3 / max(time.thread_time() - start, 1e-9))
    return best
