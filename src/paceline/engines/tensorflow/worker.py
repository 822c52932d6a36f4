"""A TensorFlow worker: which class plays it in which strategy."""

from collections.abc import Callable

from paceline.engines.tensorflow.allreduce import AllReduce
from paceline.engines.tensorflow.ps_async import AsyncWorker
from paceline.engines.tensorflow.ps_sync import SyncWorker
from paceline.engines.tensorflow.single import Single
from paceline.train.context import Outcome, TaskContext
from paceline.train.loop import train
from paceline.train.strategy import WorkerStrategy

_WORKERS: dict[str, Callable[[TaskContext], WorkerStrategy]] = {
    "single": Single,
    "ps-sync": SyncWorker,
    "ps-async": AsyncWorker,
    "allreduce": AllReduce,
}


def run(context: TaskContext) -> Outcome:
    return train(context, _WORKERS[context.job.strategy](context))
