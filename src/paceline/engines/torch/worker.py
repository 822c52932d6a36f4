"""A PyTorch worker: which class plays it in which strategy."""

from collections.abc import Callable

import torch

from paceline.engines.torch.allreduce import AllReduce
from paceline.engines.torch.ps import ParameterServerWorker
from paceline.engines.torch.rows import RowsWorker, SingleRows
from paceline.engines.torch.single import Single
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.strategy import WorkerStrategy

_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": Single,
    "ps-sync": ParameterServerWorker,
    "ps-async": ParameterServerWorker,
    "allreduce": AllReduce,
}

_ROW_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": SingleRows,
    "ps-sync": RowsWorker,
    "ps-async": RowsWorker,
}


def run(context: TaskContext) -> Outcome:
    torch.set_num_threads(context.job.threads)
    torch.set_num_interop_threads(1)
    workers = _ROW_WORKERS if context.workload.model.by_rows else _WORKERS
    return train(context, workers[context.job.strategy](context))
