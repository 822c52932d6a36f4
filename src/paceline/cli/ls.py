"""paceline ls: list the runs in a directory."""

from paceline.cli.options import DEFAULT_RUNS, AsJson, Runs


def ls(runs: Runs = DEFAULT_RUNS, json: AsJson = False) -> int:
    """List the runs, oldest first."""
    from pathlib import Path

    from paceline.analyze.load import load_result
    from paceline.cli.console import messages, output
    from paceline.errors import StoreError
    from paceline.store.paths import all_runs
    from paceline.store.result import encode
    from paceline.terminal.compare import run_list

    results = []
    for paths in all_runs(Path(runs)):
        try:
            results.append(load_result(paths))
        except StoreError as error:
            messages().print(f"{error}", style="yellow", markup=False)
    if json:
        for result in results:
            print(encode(result).decode())
    elif results:
        output().print(run_list(results))
    else:
        messages().print(
            f"no runs in {runs}: start one with paceline run logreg, or name another directory with --runs",
            markup=False,
        )
    return 0
