"""paceline advise: find the best configuration within a time budget."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, SET_ONLY, TEXT, Runs, given_fields, spec_flags

if TYPE_CHECKING:
    from paceline.store.result import Result

_FLAGS = ("size", "engine", "strategy", "layout", "batch", "hosts", "link", "latency", "cpus", "trusted_network")


@spec_flags(*_FLAGS)
def advise(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="A name that `paceline workloads` lists, path/to/file.py or package.module:name.",
            autocompletion=completion.workloads,
        ),
    ],
    *,
    goal: Annotated[
        str, typer.Option(metavar=TEXT, help="examples/s, updates/s, time-to-accuracy=X or time-to-loss=X.")
    ] = "examples/s",
    budget: Annotated[str, typer.Option(metavar=TEXT, help="Time for all runs together: 90s, 10m or 2h.")] = "120s",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar=TEXT, help=f"Any other option, name=value: {', '.join(SET_ONLY)}."),
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as one JSON object on stdout.")] = False,
    **flags: Any,
) -> int:
    """Find the best configuration within a time budget.

    All combinations of the listed options are predicted from short runs; only the promising ones are run, until the
    winner is sure or the budget is spent. Every run is kept, and the same command later continues from there.
    """
    import msgspec

    from paceline import units
    from paceline.advice import Adviser
    from paceline.cli.console import output, print_message
    from paceline.prediction.results import Goal
    from paceline.spec.load import parse_assignments
    from paceline.terminal.advice import advice_view

    wanted, budget_s = Goal.parse(goal), units.time_limit(budget)
    fields = {"workload": workload} | given_fields(flags) | parse_assignments(set_ or []) | {"runs": runs}
    fields.setdefault("strategy", _usable_strategies(workload, fields))
    fields.setdefault("layout", _LAYOUTS)
    advice = Adviser(fields, wanted, budget_s, _runner(runs), print_message).advise()
    if json:
        print(msgspec.json.encode(advice).decode())
    else:
        output().print(advice_view(advice, wanted), crop=False, soft_wrap=True)
    return 0 if advice.value else 1


_LAYOUTS = "pw w,p w w,pw w w"
"""The candidates if no layouts are given; strategies without servers use the same workers."""


def _usable_strategies(workload: str, fields: Mapping[str, Any]) -> list[str]:
    """The strategies that the engine has, the workload allows and that can be predicted.

    Not those whose updates mean something else, because their workers exchange only after several steps or may be only
    some steps apart: they are candidates if they are listed.
    """
    from paceline.engines.registry import engines
    from paceline.spec.experiment import OPTIONS
    from paceline.strategies.registry import strategies
    from paceline.workloads.registry import sizes_of

    engine = engines().get(str(fields.get("engine", OPTIONS["engine"].default)))
    refused = next(iter(sizes_of(workload.partition(":")[0]).values())).refused
    names = [
        name
        for name, one in strategies().items()
        if one.protocol
        and one.waits in ("never", "every-step")
        and (engine is None or name in engine.strategies)
        and not one.reason_against(refused)
    ]
    return names or list(strategies())


def _runner(runs: str) -> Any:
    from paceline.cli.run import make_runs
    from paceline.spec.load import experiment

    def make_run(fields: Mapping[str, Any]) -> "Result":
        # Without a name: a sweep of a name does not repeat a run that it has.
        (result,) = make_runs(experiment({**fields, "runs": runs}), json=False, metrics_port=None)
        return result

    return make_run
