"""An Experiment's lists become the product of runs."""

import hashlib
from itertools import product
from math import prod

import msgspec

from paceline.errors import SpecError
from paceline.spec.experiment import Experiment, RunSpec

MAX_RUNS = 10_000


def expand(experiment: Experiment) -> list[RunSpec]:
    """Every combination, with repeats as the outermost loop: an interrupted sweep has complete rounds."""
    count = experiment.repeat * prod(map(len, experiment.axes.values()))
    if count > MAX_RUNS:
        raise SpecError(f"that makes {count:,} runs: at most {MAX_RUNS:,} in one sweep")
    runs = []
    for repeat in range(1, experiment.repeat + 1):
        for values in product(*experiment.axes.values()):
            chosen = dict(zip(experiment.axes, values, strict=True))
            runs.append(msgspec.structs.replace(experiment.run, repeat=repeat, **chosen))
    return list(dict.fromkeys(runs))


def key(run: RunSpec) -> str:
    """Equal for runs that do the same work, whenever and wherever they are made."""
    return hashlib.sha256(msgspec.json.encode(run, order="deterministic")).hexdigest()[:16]
