"""A TensorFlow worker: which class plays it in which strategy."""

from collections.abc import Callable

from paceline.engines.tensorflow.allreduce import AllReduce
from paceline.engines.tensorflow.blocks import Blocks
from paceline.engines.tensorflow.own import with_model
from paceline.engines.tensorflow.ps_async import AsyncWorker
from paceline.engines.tensorflow.ps_sync import SyncWorker
from paceline.engines.tensorflow.single import Single
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.product import compute
from paceline.train.strategy import WorkerStrategy

_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": Single,
    "ps-sync": SyncWorker,
    "ps-async": AsyncWorker,
    "allreduce": AllReduce,
}


def run(context: TaskContext) -> Outcome:
    context = with_model(context)
    if context.workload.blocks:
        return compute(context, Blocks(context, context.workload.blocks))
    return train(context, _WORKERS[context.job.strategy](context))
