"""Train a model on a cluster, measure every step on every host, and see what sets the pace."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.data.batches import Share
    from paceline.store.result import Result
    from paceline.workloads.functions import TensorFunction
    from paceline.workloads.model import Model
    from paceline.workloads.workload import Workload

__all__ = ["Model", "Share", "TensorFunction", "Workload", "run"]

# Loaded when first used: `paceline --help` has no time for them.
_HOMES = {
    "Model": "paceline.workloads.model",
    "Share": "paceline.data.batches",
    "TensorFunction": "paceline.workloads.functions",
    "Workload": "paceline.workloads.workload",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'paceline' has no attribute '{name}'")


def run(workload: str, **fields: Any) -> "list[Result]":
    """Run an experiment from Python: the fields are those of the command line; any may be a list.

    Ctrl-C ends the run under way in good order and is then raised here.
    """
    from contextlib import nullcontext

    from paceline import pipeline
    from paceline.spec.load import experiment

    request = experiment({"workload": workload, **fields})
    results = pipeline.run(request, lambda *_: nullcontext(lambda _moment: None), lambda *_: None)
    if results[-1].status == "aborted":
        raise KeyboardInterrupt
    return results
