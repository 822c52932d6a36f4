"""Train a model on a cluster, measure every step on every host, find the bottleneck."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.api.comparison import RunComparison
    from paceline.api.read import compare, export, load, write_report
    from paceline.api.reproduce import ReproducedTable, reproduce
    from paceline.api.results import Results, RunResult
    from paceline.api.run import launch, run
    from paceline.data.batches import Share
    from paceline.errors import PacelineError, RunFailed, UsageError
    from paceline.forecast import predict
    from paceline.workloads.functions import TensorFunction
    from paceline.workloads.model import Model
    from paceline.workloads.workload import Metric, Workload

    __version__: str

__all__ = [
    "Metric",
    "Model",
    "PacelineError",
    "ReproducedTable",
    "Results",
    "RunComparison",
    "RunFailed",
    "RunResult",
    "Share",
    "TensorFunction",
    "UsageError",
    "Workload",
    "compare",
    "export",
    "launch",
    "load",
    "predict",
    "reproduce",
    "run",
    "write_report",
]

# Each name is imported when it is first used, which keeps `paceline --help` fast.
_MODULES = {
    "Metric": "paceline.workloads.workload",
    "Model": "paceline.workloads.model",
    "PacelineError": "paceline.errors",
    "ReproducedTable": "paceline.api.reproduce",
    "Results": "paceline.api.results",
    "RunComparison": "paceline.api.comparison",
    "RunFailed": "paceline.errors",
    "RunResult": "paceline.api.results",
    "Share": "paceline.data.batches",
    "TensorFunction": "paceline.workloads.functions",
    "UsageError": "paceline.errors",
    "Workload": "paceline.workloads.workload",
    "compare": "paceline.api.read",
    "export": "paceline.api.read",
    "launch": "paceline.api.run",
    "load": "paceline.api.read",
    "predict": "paceline.forecast",
    "reproduce": "paceline.api.reproduce",
    "run": "paceline.api.run",
    "write_report": "paceline.api.read",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("paceline")
    else:
        raise AttributeError(f"module 'paceline' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
