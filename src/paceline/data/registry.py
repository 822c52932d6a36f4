"""The data sets by name. Each is a module or an object with `ensure`, `find_prepared` and `load`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.data import cifar, distorted, empty, fashion, imagenet, mnist, sparse
from paceline.data.batches import Examples
from paceline.data.dataset import PreparedData
from paceline.data.progress import Advance, reporting_to
from paceline.data.text import TextData
from paceline.errors import DataError

_DATASETS: dict[str, Any] = {
    "mnist": mnist,
    "fashion-mnist": fashion,
    "distorted-mnist": distorted,
    "cifar10": cifar,
    "imagenet": imagenet,
    "sparse": sparse,
    "text": TextData(64),
    "text-256": TextData(256),
    "none": empty,
}

LARGEST_EXAMPLES = dict.fromkeys(("mnist", "distorted-mnist"), mnist.LARGEST_EXAMPLES)
"""The most training examples of data sets that can be augmented."""
SHUFFLED = frozenset(name for name, module in _DATASETS.items() if module not in (sparse, empty))
"""The data sets that are read in the order that `Share` describes; `sparse` is read consecutively."""
DATASETS = tuple(name for name, module in _DATASETS.items() if module is not empty)
"""The names that a workload may use."""


def ensure(
    name: str,
    notify: Callable[[str], None] = lambda _line: None,
    advance: Advance = lambda _what, _done, _total: None,
) -> PreparedData:
    """Put the data on this machine and verify it; called once, before a run.

    `notify` gets lines for the user, `advance` the progress of what takes long.
    """
    if _on_disk(name) is None:
        notify(f"fetching {name}, which is not on this machine yet")
    with reporting_to(advance):
        prepared: PreparedData = _DATASETS[name].ensure()
    if prepared.is_substitute:
        notify(f"note: training on {prepared.source}")
    return prepared


def load(name: str, prepared: PreparedData | None = None, examples: int | None = None) -> Examples:
    """Memory-map what `ensure` returned, with the first `examples` training examples (all if None). For tasks."""
    data: Examples = _DATASETS[name].load(examples, prepared)
    return data


def presence() -> dict[str, tuple[bool, str]]:
    """For each data set: False if a substitute would be used, and a text that says what is on this machine."""
    states = {}
    for name in DATASETS:
        prepared = _on_disk(name)
        if prepared is None:
            states[name] = (True, "not on this machine yet: fetched when a run first needs it")
        else:
            where = f" in {Path(prepared.paths[0]).parent}" if prepared.paths else ""
            states[name] = (not prepared.is_substitute, prepared.source + where)
    return states


def _on_disk(name: str) -> PreparedData | None:
    try:
        prepared: PreparedData = _DATASETS[name].find_prepared()
    except DataError:
        return None
    return prepared
