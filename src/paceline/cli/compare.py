"""paceline compare: compare runs and show which differences are larger than the spread of their repeats."""

from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import completion
from paceline.cli.options import DEFAULT_RUNS, TEXT, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paceline.analyze.comparison import Comparison
    from paceline.analyze.regression_gate import GateResult


def compare(
    run: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs, or names of sweeps.", autocompletion=completion.runs_and_sweeps),
    ],
    base: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT,
            help="Run or sweep to compare the others with (default: the first configuration).",
            autocompletion=completion.runs_and_sweeps,
        ),
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar=TEXT,
            help="Exit with 1 if a configuration is slower than the base by more than this share, e.g. 5%.",
        ),
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print the comparison as one JSON object on stdout.")] = False,
) -> int:
    """Show which differences between runs are significant.

    Runs with the same options are the repeats of one configuration.
    """
    import msgspec

    from paceline import units
    from paceline.analyze.comparison import as_json
    from paceline.analyze.regression_gate import check_gate
    from paceline.cli.console import output
    from paceline.errors import UsageError
    from paceline.terminal.compare import comparison_view

    max_slowdown = None if fail_if_slower is None else units.fraction(fail_if_slower)
    comparison = _compare_stored(runs, run, base)
    if max_slowdown is not None and not comparison.pairs:
        raise UsageError(
            "--fail-if-slower has nothing to compare with the base: name runs of two configurations or more"
        )
    gate_results = None if max_slowdown is None else check_gate(comparison.pairs, max_slowdown)
    if json:
        print(msgspec.json.encode(as_json(comparison, gate_results)).decode())
    else:
        output().print(comparison_view(comparison))
    if gate_results:
        _print_gate_results(gate_results, comparison.unpaired)
    return 1 if any(result.too_slow for result in gate_results or ()) else 0


def _compare_stored(runs: str, names: list[str], base: str | None) -> "Comparison":
    """The comparison of the named runs and sweeps with the base."""
    from pathlib import Path

    from paceline.analyze.comparison import compare as compare_results
    from paceline.analyze.load import load_readable
    from paceline.cli.console import print_message
    from paceline.store.paths import are_several_sweeps, find_runs

    directory = Path(runs)
    all_names = [*names, base] if base else names
    selected = find_runs(directory, all_names)
    base_runs = {paths.directory.resolve() for paths in find_runs(directory, [base])} if base else set()
    return compare_results(
        load_readable(selected, print_message),
        base=[str(paths.directory) for paths in selected if paths.directory.resolve() in base_runs],
        by_sweep=are_several_sweeps(directory, all_names, selected),
    )


def _print_gate_results(gate_results: "Sequence[GateResult]", unpaired: "Sequence[str]") -> None:
    """Print on stderr whether each configuration is fast enough, and which ones could not be checked."""
    from paceline.cli.console import messages

    for name in unpaired:
        messages().print(f"not checked: {name} matches no configuration of the baseline", markup=False, soft_wrap=True)
    for result in gate_results:
        outcome = "too slow" if result.too_slow else "fast enough"
        messages().print(f"{outcome}: {result.why}", markup=False, soft_wrap=True)
