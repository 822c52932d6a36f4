"""Options of what workers exchange, and how often: of strategies that need less of the network, or wait less."""

from typing import Annotated

from paceline.spec.compression import Compression
from paceline.spec.option import Option
from paceline.spec.spark_options import SparkOptions
from paceline.spec.training import read_staleness_bound
from paceline.spec.values import number_as_text


class ExchangeOptions(SparkOptions, frozen=True, kw_only=True):
    """Rounds of workers that train alone, how far workers may be apart, and compression."""

    sync_every: Annotated[
        int | None,
        Option(
            added=True,
            minimum=1,
            unit="updates",
            unset="16 for local-sgd, 100 for diloco",
            help="local-sgd, diloco: steps that each worker makes alone between two exchanges.",
        ),
    ] = None
    outer_lr: Annotated[
        float | None,
        Option(
            added=True,
            above=0,
            unset="0.7",
            help="diloco: learning rate of the outer step, which applies the mean change of the workers.",
        ),
    ] = None
    outer_momentum: Annotated[
        float | None,
        Option(
            added=True,
            minimum=0,
            below=1,
            unset="0.9",
            help="diloco: Nesterov momentum of the outer step; 0 is none.",
        ),
    ] = None
    staleness_bound: Annotated[
        str | None,
        Option(
            added=True,
            accepts=int | str | None,
            unit="steps",
            unset="3",
            parse=number_as_text,
            check=read_staleness_bound,
            help="ssp: how many steps a worker may be ahead of the slowest before it waits: 0 is lockstep, inf never "
            "waits.",
        ),
    ] = None
    compress: Annotated[
        str | None,
        Option(
            added=True,
            unset="nothing is compressed",
            check=Compression.parse,
            help="How workers of engine torch compress what they send: fp16, int8, topk:0.01 (the largest 1 % of the "
            "values) or powersgd:4 (matrices of rank 4). What is left out is added to the next exchange.",
        ),
    ] = None
