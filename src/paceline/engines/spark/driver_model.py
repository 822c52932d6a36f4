"""The parameters in the driver's memory, and what evaluations and checkpoints need of them."""

from typing import Any

import msgspec

from paceline.engines.spark.numpy_model import NumpyModel
from paceline.train.checkpoint import InitialState
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor
from paceline.workloads.model import Model
from paceline.workloads.parameters import Parameters, views


class DriverModel:
    """What all programs of the driver share. `spark` is the SparkContext."""

    def __init__(self, context: TaskContext, spark: Any) -> None:
        assert isinstance(context.model, Model)
        self._model, self._spark = context.model, spark
        self._start = InitialState(context)
        self._values, self.first_step = self._start.values(), self._start.update
        self.workers = context.job.workers
        # The executors need no secret of the job: Spark gives them its own.
        self._job = spark.broadcast(msgspec.structs.replace(context.job, secrets={}))
        self._partitions = spark.parallelize(range(self.workers), self.workers)

    def predictor(self) -> Predictor:
        model, values = NumpyModel(self._model), self._values
        return lambda *inputs: model.outputs(values, inputs)

    def parameters(self) -> Parameters:
        return {name: value.copy() for name, value in views(self._values, self._model.parameters).items()}
