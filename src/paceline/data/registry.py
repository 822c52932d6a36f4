"""The data sets by name."""

from types import ModuleType

from paceline.data import mnist
from paceline.data.dataset import Dataset, Ready

_DATASETS: dict[str, ModuleType] = {"mnist": mnist}


def ensure(name: str) -> Ready:
    """Have the data on this machine, verified; called once, before anything starts."""
    ready: Ready = _DATASETS[name].ensure()
    return ready


def load(name: str, ready: Ready | None = None) -> Dataset:
    """Map what `ensure` found; called by every task."""
    data: Dataset = _DATASETS[name].load(ready=ready)
    return data
