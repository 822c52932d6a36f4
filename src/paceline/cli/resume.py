"""paceline resume: continue a failed or interrupted run from its last checkpoint."""

from functools import partial
from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, AsJson, Runs
from paceline.cli.run import exit_code, refusal_line


def resume(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Id of a run, the first characters of an id, the directory of a run, or `latest`: the latest run that "
            "can be resumed.",
            autocompletion=completion.runs,
        ),
    ],
    runs: Runs = DEFAULT_RUNS,
    json: AsJson = False,
) -> int:
    """Continue a run from its last checkpoint.

    The run has failed or was interrupted. The continuation is stored as a new run.
    """
    from pathlib import Path

    from paceline import pipeline
    from paceline.cli.console import messages, output
    from paceline.store.paths import find_run
    from paceline.store.result import encode
    from paceline.terminal import live
    from paceline.terminal.details import details
    from paceline.terminal.working import working

    console = messages()
    if run == "latest":
        paths = pipeline.latest_resumable(Path(runs))
        console.print(f"resuming {paths.id}", markup=False, soft_wrap=True)
    else:
        paths = find_run(Path(runs), run)
    result = pipeline.resume(
        paths,
        view=partial(live.show, console),
        on_message=lambda line: console.print(line, markup=False, soft_wrap=True),
        show_work=partial(working, console),
    )
    if json:
        print(encode(result).decode(), flush=True)
    elif not result.refused:
        output().print(details(result))
    if result.refused:
        console.print(refusal_line(result), markup=False, soft_wrap=True)
    return exit_code([result])
