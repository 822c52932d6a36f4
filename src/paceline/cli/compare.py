"""paceline compare: compare runs, and tell which differences are larger than the spread of their repeats."""

from typing import Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, Runs


def compare(
    run: Annotated[
        list[str], typer.Argument(help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps)
    ],
    base: Annotated[
        str | None,
        typer.Option(
            help="Run or sweep to compare the others with (default: the first configuration).",
            autocompletion=completion.runs_and_sweeps,
        ),
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(help="Exit with 1 if a configuration is slower than the base by more than this share, e.g. 5%."),
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print the comparison as one JSON object on stdout.")] = False,
) -> int:
    """Compare configurations, each with its repeats, and tell which differences are not chance."""
    from pathlib import Path

    import msgspec

    from paceline import units
    from paceline.analyze.comparison import as_json
    from paceline.analyze.comparison import compare as compare_results
    from paceline.analyze.load import load_result
    from paceline.analyze.regression_gate import check_gate
    from paceline.analyze.repeats import overlap
    from paceline.cli.console import messages, output
    from paceline.errors import UsageError
    from paceline.store.paths import find_runs, runs_of_sweep
    from paceline.terminal.compare import comparison_view

    max_slowdown = None if fail_if_slower is None else units.fraction(fail_if_slower)
    directory = Path(runs)
    results = [load_result(paths) for paths in find_runs(directory, [*run, *([base] if base else [])])]
    sweeps = {name for name in (*run, base) if name and runs_of_sweep(directory, name)}
    comparison = compare_results(
        results,
        base=[paths.id for paths in find_runs(directory, [base])] if base else (),
        by_sweep=len(sweeps) > 1 and overlap(results),
    )
    if max_slowdown is not None and not comparison.pairs:
        raise UsageError(
            "--fail-if-slower has nothing to compare with the base: name runs of two configurations or more"
        )
    rulings = None if max_slowdown is None else check_gate(comparison.pairs, max_slowdown)
    if json:
        print(msgspec.json.encode(as_json(comparison, rulings)).decode())
    else:
        output().print(comparison_view(comparison))
    for name in comparison.unpaired if rulings else ():
        messages().print(f"not checked: {name} has no counterpart to compare with", markup=False, soft_wrap=True)
    for ruling in rulings or ():
        outcome = "too slow" if ruling.too_slow else "fast enough"
        messages().print(f"{outcome}: {ruling.why}", markup=False, soft_wrap=True)
    return 1 if any(ruling.too_slow for ruling in rulings or ()) else 0
