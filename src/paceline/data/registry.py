"""The data sets by name."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from paceline.data import cifar, distorted, empty, fashion, imagenet, mnist, sparse
from paceline.data.batches import Examples
from paceline.data.dataset import PreparedData
from paceline.errors import DataError

_DATASETS: dict[str, ModuleType] = {
    "mnist": mnist,
    "fashion-mnist": fashion,
    "distorted-mnist": distorted,
    "cifar10": cifar,
    "imagenet": imagenet,
    "sparse": sparse,
    "none": empty,
}


DATASETS = tuple(name for name, module in _DATASETS.items() if module is not empty)
"""Those that a workload may name."""


def ensure(name: str, say: Callable[[str], None] = lambda _line: None) -> PreparedData:
    """Have the data on this machine, verified; called once, before anything starts."""
    if _on_disk(name) is None:
        say(f"getting {name}, which is not on this machine yet")
    ready: PreparedData = _DATASETS[name].ensure()
    if ready.stands_in:
        say(f"note: training on {ready.source}")
    return ready


def load(name: str, ready: PreparedData | None = None, examples: int | None = None) -> Examples:
    """Map what `ensure` found, the training part cut to so many examples; called by every task."""
    data: Examples = _DATASETS[name].load(examples, ready)
    return data


def presence() -> dict[str, tuple[bool, str]]:
    """For each data set whether it is on this machine, and what it is or what will happen."""
    found = {}
    for name in DATASETS:
        ready = _on_disk(name)
        if ready is None:
            found[name] = (True, "not here yet: fetched when a run first needs it")
        else:
            where = f" in {Path(ready.paths[0]).parent}" if ready.paths else ""
            found[name] = (not ready.stands_in, ready.source + where)
    return found


def _on_disk(name: str) -> PreparedData | None:
    try:
        ready: PreparedData = _DATASETS[name].find_ready()
    except DataError:
        return None
    return ready
