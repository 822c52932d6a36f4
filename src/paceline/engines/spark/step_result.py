"""What a program of the driver returns for one step."""

import msgspec
import numpy as np

from paceline.engines.spark.gradient_task import Share
from paceline.engines.spark.step_times import StepMarks


class BspStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step that was one job, whose group has the name `group`."""

    group: str
    marks: StepMarks
    shares: list[Share]

    @property
    def loss(self) -> float:
        """Mean over the examples of all workers."""
        return float(np.mean([share.loss for share in self.shares]))
