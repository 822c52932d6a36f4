"""Expand an experiment into its runs: every combination of the values in its lists."""

import hashlib
from itertools import product
from math import prod

import msgspec

from paceline.errors import SpecError
from paceline.spec.experiment import IDENTIFYING, OPTIONS, Experiment
from paceline.spec.run_options import RunSpec

MAX_RUNS = 10_000
"""More runs than this in one sweep is taken for a mistake."""


def expand(experiment: Experiment) -> list[RunSpec]:
    """The runs of an experiment, without duplicates.

    The repeats are the outermost loop, so that a sweep interrupted early has measured each configuration equally often.
    """
    count = experiment.repeat * prod(map(len, experiment.axes.values()))
    if count > MAX_RUNS:
        raise SpecError(
            f"the sweep has {count:,} runs: must be at most {MAX_RUNS:,}, shorten the lists or lower repeat"
        )
    runs = []
    for repeat in range(1, experiment.repeat + 1):
        for values in product(*experiment.axes.values()):
            fields = dict(zip(experiment.axes, values, strict=True))
            runs.append(msgspec.structs.replace(experiment.run, repeat=repeat, **fields))
    return list(dict.fromkeys(runs))


def key(run: RunSpec) -> str:
    """A hash of all options that identify a run: equal for equal runs, on any machine and at any time."""
    options = {
        name: getattr(run, name)
        for name in IDENTIFYING
        if name not in OPTIONS or not OPTIONS[name].added or getattr(run, name) != OPTIONS[name].default
    }
    return hashlib.sha256(msgspec.json.encode(options)).hexdigest()[:16]
