"""Chooses the number of compute threads of a worker by measurement, unless the user has given it.

torch splits each operation over its threads, and waits for the last of them. If other processes use the cores, a thread
waits for its turn in each operation, so that a small model can be many times slower with two threads than with one.
"""

from collections.abc import Callable
from time import perf_counter

import torch

from paceline.train.context import TaskContext

_LARGE_FIRST_S = 0.4
"""If the first computation takes this long, even with the time to load libraries, the model is large: it gains from
more threads, and is not measured."""
_LARGE_S = 0.05
"""The same for a computation with one thread."""
_BLOCK_S = 0.04
"""How long each number of threads is measured at a time."""
_BUDGET_S = 0.3
"""No further block is measured after this time."""
_ROUNDS = 3
_MIN_GAIN = 0.05
"""More threads must be this much faster: they take cores from the other tasks."""


def warm_up(context: TaskContext, compute: Callable[[], object]) -> None:
    """Compute once, so that lazy initialisation is finished before the training clock starts; then set the number of
    compute threads to 1 or `job.threads`, whichever is faster, and report it.

    `compute` does the computation of a step and must leave no trace. Nothing is measured if there is no choice.
    """
    job = context.job
    torch.set_num_threads(job.threads)
    first_s = _seconds(compute)
    if job.threads == 1 or not job.tune_threads or first_s > _LARGE_FIRST_S:
        return
    torch.set_num_threads(1)
    if _seconds(compute) < _LARGE_S and not _faster(compute, job.threads):
        torch.set_num_threads(1)
        context.rendezvous.report_threads(1)
        return
    torch.set_num_threads(job.threads)


def _faster(compute: Callable[[], object], threads: int) -> bool:
    """Whether this number of threads is faster than one thread; both are measured by turns."""
    spent = {1: 0.0, threads: 0.0}
    count = {1: 0, threads: 0}
    start = perf_counter()
    for _ in range(_ROUNDS):
        for number in (1, threads):
            torch.set_num_threads(number)
            compute()  # The first computation after a change may start threads.
            block_start = perf_counter()
            while perf_counter() - block_start < _BLOCK_S:
                spent[number] += _seconds(compute)
                count[number] += 1
        if perf_counter() - start > _BUDGET_S:
            break
    return spent[threads] / count[threads] < (1 - _MIN_GAIN) * spent[1] / count[1]


def _seconds(compute: Callable[[], object]) -> float:
    start = perf_counter()
    compute()
    return perf_counter() - start
