"""Train a model on a cluster, measure every step on every host, find the bottleneck."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.api import run
    from paceline.data.batches import Share
    from paceline.workloads.functions import TensorFunction
    from paceline.workloads.model import Model
    from paceline.workloads.workload import Workload

__all__ = ["Model", "Share", "TensorFunction", "Workload", "run"]

# Each name is imported when it is first used, which keeps `paceline --help` fast.
_MODULES = {
    "Model": "paceline.workloads.model",
    "Share": "paceline.data.batches",
    "TensorFunction": "paceline.workloads.functions",
    "Workload": "paceline.workloads.workload",
    "run": "paceline.api",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'paceline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
