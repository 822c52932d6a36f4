"""paceline resume: go on with a run that was cut short."""

from functools import partial
from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, AsJson, Runs
from paceline.cli.run import EXIT


def resume(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's id, the beginning of one, its directory, or `latest`.", autocompletion=completion.runs
        ),
    ],
    runs: Runs = DEFAULT_RUNS,
    json: AsJson = False,
) -> int:
    """Continue a failed or aborted run from its last checkpoint, as a new run beside it."""
    from pathlib import Path

    from paceline import pipeline
    from paceline.cli.console import messages, output
    from paceline.store.paths import find_run
    from paceline.store.result import encode
    from paceline.terminal import live
    from paceline.terminal.details import details

    console = messages()
    result = pipeline.resume(
        find_run(Path(runs), run),
        view=partial(live.show, console),
        say=lambda line: console.print(line, markup=False, soft_wrap=True),
    )
    if json:
        print(encode(result).decode(), flush=True)
    else:
        output().print(details(result))
    return EXIT[result.status]
