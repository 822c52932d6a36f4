"""Options that several verbs share."""

from typing import Annotated

import typer

Runs = Annotated[str, typer.Option("--runs", help="Directory that holds the runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per run on stdout, a line each.")]
DEFAULT_RUNS = "runs"
