"""The data sets by name."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from paceline.data import mnist
from paceline.data.dataset import Dataset, Ready
from paceline.errors import DataError

_DATASETS: dict[str, ModuleType] = {"mnist": mnist}


def ensure(name: str, say: Callable[[str], None] = lambda _line: None) -> Ready:
    """Have the data on this machine, verified; called once, before anything starts."""
    if _on_disk(name) is None:
        say(f"getting {name}, which is not on this machine yet")
    ready: Ready = _DATASETS[name].ensure()
    if ready.synthetic:
        say(f"note: training on {ready.source}")
    return ready


def load(name: str, ready: Ready | None = None) -> Dataset:
    """Map what `ensure` found; called by every task."""
    data: Dataset = _DATASETS[name].load(ready=ready)
    return data


def presence() -> dict[str, tuple[bool, str]]:
    """For each data set whether it is on this machine, and what it is or what will happen."""
    found = {}
    for name in _DATASETS:
        ready = _on_disk(name)
        if ready is None:
            found[name] = (True, "not here yet: fetched when a run first needs it")
        else:
            found[name] = (not ready.synthetic, f"{ready.source} in {Path(ready.paths[0]).parent}")
    return found


def _on_disk(name: str) -> Ready | None:
    try:
        ready: Ready = _DATASETS[name].find_ready()
    except DataError:
        return None
    return ready
