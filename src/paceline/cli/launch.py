"""paceline launch: start a user's own training script, observe it, and show the result."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.options import LAUNCH_FLAGS, TEXT, AsJson, DryRun, MetricsPort, Ui, given_fields, spec_flags
from paceline.cli.run import make_and_show_runs, show_plan, watched

if TYPE_CHECKING:
    from paceline.spec.experiment import Experiment


@spec_flags(*LAUNCH_FLAGS)
def launch(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT|-m MODULE [ARGS]",
            help="The script or module, and its arguments; {name} in them is the value of a --param.",
            show_default=False,
        ),
    ],
    *,
    module: Annotated[
        bool, typer.Option("-m", help="The first word is the name of a module, as with python -m.")
    ] = False,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar=f"{TEXT},..",
            help="Values of {name} in the arguments: bs=32,64 makes a run for each. May be given several times.",
        ),
    ] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Also show what the first rank prints.")] = False,
    metrics_port: MetricsPort = None,
    ui: Ui = False,
    dry_run: DryRun = False,
    json: AsJson = False,
    **flags: Any,
) -> int:
    """Start and measure your own training script.

    Every w of the layout is one process of the script, a rank, with the environment variables that torchrun sets.
    Options of Paceline come before SCRIPT; what follows SCRIPT belongs to the script.
    """
    experiment = _read_experiment(command, flags, param or [], is_module=module)
    if dry_run:
        return show_plan(experiment)
    views = []
    if echo:
        from paceline.cli.console import messages
        from paceline.terminal.echo import echo_first_rank

        views.append(echo_first_rank(messages(), experiment.runs))
    with watched(experiment.runs, ui=ui):
        return make_and_show_runs(experiment, json=json, metrics_port=metrics_port, more_views=views)


def _read_experiment(command: list[str], flags: dict[str, Any], params: list[str], *, is_module: bool) -> "Experiment":
    from paceline.spec.load import experiment
    from paceline.spec.script import MODULE_FLAG, combinations

    fields = given_fields(flags) | {"script": [MODULE_FLAG, *command] if is_module else command}
    if params:
        fields["param"] = combinations(params)
    return experiment(fields)
