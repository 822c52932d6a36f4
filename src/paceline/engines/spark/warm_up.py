"""Jobs before the barrier, which measure what it costs to start a task and load what the steps need."""

from typing import Any

from paceline.engines.spark.event_log import EMPTY_TASK, GROUP
from paceline.engines.spark.gradient_task import EmptyTask

WARM_UP_JOBS = 5
"""Jobs of a step: the first loads the data and starts Python, the others are compiled by the JVM meanwhile."""
_EMPTY_JOBS = 5


def run_empty_tasks(spark: Any, partitions: Any) -> None:
    """Run jobs whose tasks do nothing; their times are in the event log."""
    for _ in range(_EMPTY_JOBS):
        values = spark.broadcast(None)
        spark.setLocalProperty(GROUP, EMPTY_TASK)
        partitions.mapPartitionsWithIndex(EmptyTask(values)).collect()
        values.destroy()
