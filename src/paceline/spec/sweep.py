"""An Experiment's lists become the product of runs."""

import hashlib
from itertools import product

import msgspec

from paceline.spec.experiment import AXES, Experiment, RunSpec


def expand(experiment: Experiment) -> list[RunSpec]:
    """Every combination, repeats outermost: an interrupted sweep has whole rounds of everything."""
    runs = []
    for repeat in range(1, experiment.repeat + 1):
        for values in product(*(getattr(experiment, axis) for axis in AXES)):
            chosen = dict(zip(AXES, values, strict=True))
            runs.append(RunSpec(**chosen, repeat=repeat, stop=experiment.stop))
    return list(dict.fromkeys(runs))


def key(run: RunSpec) -> str:
    """What makes a run the same work as another, whenever and wherever it is done."""
    return hashlib.sha256(msgspec.json.encode(run, order="deterministic")).hexdigest()[:16]
