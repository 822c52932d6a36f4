"""paceline show: print the result of one run."""

from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, AsJson, Runs


def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Id of a run, the first characters of an id, the directory of a run, or `latest`.",
            autocompletion=completion.runs,
        ),
    ],
    runs: Runs = DEFAULT_RUNS,
    json: AsJson = False,
) -> int:
    """Show the result of one run, with its bottleneck.

    It has time, throughput and quality, the phases of each worker, the load of each host, and the bottleneck.
    """
    from pathlib import Path

    from paceline.analyze.load import load_result
    from paceline.cli.console import output
    from paceline.store.paths import find_run
    from paceline.store.result import encode
    from paceline.terminal.details import details

    result = load_result(find_run(Path(runs), run))
    if json:
        print(encode(result).decode())
    else:
        output().print(details(result), crop=False)
    return 0
