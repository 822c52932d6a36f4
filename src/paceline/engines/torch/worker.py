"""The entry point of a PyTorch worker: chooses the class that implements the strategy of the run, and trains."""

from collections.abc import Callable

import msgspec
import torch

from paceline.engines.torch.allreduce import make_allreduce
from paceline.engines.torch.block_matmul import BlockMatmulWorker
from paceline.engines.torch.local_steps import LocalSteps
from paceline.engines.torch.ps_worker import ParameterServerWorker
from paceline.engines.torch.single import Single
from paceline.engines.torch.sparse_rows import RowsWorker, SingleRows
from paceline.engines.torch.user_model import with_user_model
from paceline.errors import PeersGone
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.matmul_worker import run_matmul
from paceline.train.strategy import WorkerStrategy

_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": Single,
    "ps-sync": ParameterServerWorker,
    "ps-async": ParameterServerWorker,
    "ssp": ParameterServerWorker,
    "allreduce": make_allreduce,
    "local-sgd": LocalSteps,
    "diloco": LocalSteps,
}

_ROW_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": SingleRows,
    "ps-sync": RowsWorker,
    "ps-async": RowsWorker,
    "ssp": RowsWorker,
}


def run(context: TaskContext) -> Outcome:
    """Train until the run ends. If the peers are lost and the job is reassignable, continue with the next job."""
    torch.set_num_threads(context.job.threads)
    torch.set_num_interop_threads(1)
    context = with_user_model(context)
    if context.workload.blocks:
        return run_matmul(context, BlockMatmulWorker(context, context.workload.blocks))
    while True:
        strategy = None
        try:
            strategy = _make_strategy(context)
            return train(context, strategy)
        except PeersGone as error:
            if not context.job.reassignable:
                raise
            reason = str(error)
        if isinstance(strategy, ParameterServerWorker | RowsWorker):
            strategy.abandon()
        # Keep what takes long to load (the framework, the data and the model); create everything else again, as a
        # new process would.
        context = msgspec.structs.replace(context, job=context.rendezvous.wait_for_new_job(reason))


def _make_strategy(context: TaskContext) -> WorkerStrategy:
    workers = _ROW_WORKERS if context.model.by_rows else _WORKERS
    return workers[context.job.strategy](context)
