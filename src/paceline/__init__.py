"""Train a model on a cluster, measure every step on every host, and see what sets the pace."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.store.result import Result

__all__ = ["run"]


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
