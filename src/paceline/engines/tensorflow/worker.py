"""The entry point of a TensorFlow worker: chooses the class that implements the strategy of the run, and trains."""

from collections.abc import Callable

from paceline.engines.tensorflow.allreduce import AllReduce
from paceline.engines.tensorflow.block_matmul import BlockMatmulWorker
from paceline.engines.tensorflow.ps_async import AsyncWorker
from paceline.engines.tensorflow.ps_sync import SyncWorker
from paceline.engines.tensorflow.single import Single
from paceline.engines.tensorflow.user_model import with_user_model
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.matmul_worker import run_matmul
from paceline.train.strategy import WorkerStrategy

_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": Single,
    "ps-sync": SyncWorker,
    "ps-async": AsyncWorker,
    "allreduce": AllReduce,
}


def run(context: TaskContext) -> Outcome:
    """Train until the run ends."""
    context = with_user_model(context)
    if context.workload.blocks:
        return run_matmul(context, BlockMatmulWorker(context, context.workload.blocks))
    return train(context, _WORKERS[context.job.strategy](context))
