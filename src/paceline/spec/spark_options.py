"""Options of the Spark engine."""

from typing import Annotated

from paceline.spec.option import Option
from paceline.spec.training_options import TrainingOptions
from paceline.spec.values import check_heap, check_lineage, check_master, number_as_text


class SparkOptions(TrainingOptions, frozen=True, kw_only=True):
    """The cluster of a Spark run and the shape of its jobs."""

    master: Annotated[
        str | None,
        Option(
            added=True,
            unset="a standalone cluster on the run's hosts",
            check=check_master,
            help="Spark: the address of a cluster that exists already: spark://HOST:PORT, yarn or local[N].",
        ),
    ] = None
    executor_memory: Annotated[
        str | None,
        Option(
            added=True,
            unit="bytes",
            unset="an even share of half of the machine's memory, at most 4g",
            check=check_heap,
            help="Spark: heap of each executor, e.g. 512m or 2g.",
        ),
    ] = None
    driver_memory: Annotated[
        str | None,
        Option(
            added=True,
            unit="bytes",
            unset="as executor_memory",
            check=check_heap,
            help="Spark: heap of the driver, e.g. 512m or 2g.",
        ),
    ] = None
    lineage: Annotated[
        str | None,
        Option(
            added=True,
            accepts=int | str | None,
            unit="steps",
            unset="every step starts from the same RDD",
            parse=number_as_text,
            check=check_lineage,
            help="Spark, bsp-sgd: make the RDD of each step from that of the step before, as iterative programs do. "
            "N: checkpoint it every N steps; grow: never.",
        ),
    ] = None
