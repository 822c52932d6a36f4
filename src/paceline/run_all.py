"""Makes the runs of several experiments, one after the other, for the command line and for Python code."""

from collections.abc import Callable, Sequence
from typing import Any

from paceline import pipeline
from paceline.preload import prepared
from paceline.spec.experiment import Experiment
from paceline.store.result import Result


def run_all(
    experiments: Sequence[Experiment],
    view: pipeline.RunView,
    on_result: Callable[[Result, bool], None],
    on_message: pipeline.OnMessage,
    show_work: pipeline.ShowWork,
    **options: Any,
) -> list[Result]:
    """The results of all runs, as `pipeline.run` returns them; runs that are stored already are not made again.

    An experiment that cannot work is refused before the first run starts. After a run that the user interrupts, no
    other one is made: it is the last result.
    """
    specs = [plan.spec for experiment in experiments for plan in pipeline.plan(experiment)]
    results: list[Result] = []
    with prepared(specs):
        for experiment in experiments:
            results += pipeline.run(experiment, view, on_result, on_message, show_work, **options)
            if results[-1].status == "aborted":
                break
    return results
