"""paceline compare: runs side by side."""

from typing import Annotated

import typer

from paceline.cli.options import DEFAULT_RUNS, AsJson, Runs


def compare(
    run: Annotated[list[str], typer.Argument(help="Runs, or names of sweeps.")],
    runs: Runs = DEFAULT_RUNS,
    json: AsJson = False,
) -> int:
    """Set runs side by side; repeats of one configuration become mean ± standard deviation."""
    from pathlib import Path

    from paceline.analyze.load import load_result
    from paceline.cli.console import output
    from paceline.store.paths import find_runs
    from paceline.store.result import encode
    from paceline.ui.compare import comparison_view

    results = [load_result(paths) for paths in find_runs(Path(runs), run)]
    if json:
        for result in results:
            print(encode(result).decode())
    else:
        output().print(comparison_view(results))
    return 0
