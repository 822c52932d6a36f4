"""A PyTorch worker: which class plays it in which strategy."""

from collections.abc import Callable

import torch

from paceline.engines.torch.allreduce import AllReduce
from paceline.engines.torch.ps import ParameterServerWorker
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


def run(context: TaskContext) -> Outcome:
    torch.set_num_threads(context.job.threads)
    torch.set_num_interop_threads(1)
    return train(context, _WORKERS[context.job.strategy](context))
