"""paceline predict: predict configurations that were never run."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, TEXT, Runs, given_fields, spec_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline.plan.place import RunPlan
    from paceline.store.result import Result

FLAGS = ("engine", "strategy", "layout", "batch", "hosts", "link", "latency", "cpus", "backup")
"""Options that a prediction can change."""
VERIFY_STOP = "seconds=6"


@spec_flags(*FLAGS, overrides="that of the first run")
def predict(
    run: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps),
    ],
    *,
    target: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT,
            help="accuracy=X or loss=X: predict the time to it too, for synchronous strategies, from a run with the "
            "same number of examples per update that reached it.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Also run the configurations, and print the error of each prediction.")
    ] = False,
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per prediction on stdout, a line each.")
    ] = False,
    **flags: Any,
) -> int:
    """Predict configurations that were never run.

    The first RUN is the base; options change it, and lists predict every combination. Each prediction has the speed, an
    80 % interval and the bottleneck. All usable runs of the directory contribute.
    """
    import msgspec

    from paceline.cli.console import messages, output
    from paceline.forecast import forecast, plan_predictions
    from paceline.prediction.target import read_target
    from paceline.terminal.predictions import predictions_view
    from paceline.terminal.working import working

    rule = read_target(target) if target else None
    plans, sources = plan_predictions(run, runs, given_fields(flags))
    with working(messages(), "predicting") as advance:
        forecasts = forecast(plans, sources, rule, advance)
    results = _measure(plans, runs) if verify else []
    if json:
        for number, one in enumerate(forecasts):
            fields = msgspec.to_builtins(one)
            if results:
                fields["measured"] = {"run": results[number].run, "updates_per_s": results[number].updates_per_s}
            print(msgspec.json.encode(fields).decode(), flush=True)
    else:
        output().print(predictions_view(forecasts, results))
    return 1 if any(result.status != "ok" for result in results) else 0


def _measure(plans: "Sequence[RunPlan]", runs: str) -> "list[Result]":
    """Run every configuration for a few seconds."""
    from paceline.cli.run import make_runs
    from paceline.forecast import verification
    from paceline.spec.load import experiment

    results = []
    for plan in plans:
        fields = verification(plan, VERIFY_STOP) | {"runs": runs, "name": "predicted"}
        results += make_runs(experiment(fields), json=False, metrics_port=None)
    return results
