"""An Experiment's lists become the product of runs."""

import hashlib
from itertools import product
from math import prod

import msgspec

from paceline.errors import SpecError
from paceline.spec.experiment import AXES, Experiment, RunSpec

MAX_RUNS = 10_000


def expand(experiment: Experiment) -> list[RunSpec]:
    """Every combination, repeats outermost: an interrupted sweep has whole rounds of everything."""
    count = experiment.repeat * prod(len(getattr(experiment, axis)) for axis in AXES)
    if count > MAX_RUNS:
        raise SpecError(f"that makes {count:,} runs: at most {MAX_RUNS:,} in one sweep")
    runs = []
    for repeat in range(1, experiment.repeat + 1):
        for values in product(*(getattr(experiment, axis) for axis in AXES)):
            chosen = dict(zip(AXES, values, strict=True))
            runs.append(RunSpec(**chosen, repeat=repeat, stop=experiment.stop, fault=experiment.fault))
    return list(dict.fromkeys(runs))


def key(run: RunSpec) -> str:
    """What makes a run the same work as another, whenever and wherever it is done."""
    return hashlib.sha256(msgspec.json.encode(run, order="deterministic")).hexdigest()[:16]
