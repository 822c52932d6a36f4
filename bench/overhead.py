"""The overhead of recording and sampling, from runs that are measured in every other time slot."""

from bench.interleaved import Block, run_interleaved, slowdown, slowdown_interval
from bench.measure import Measurement, console, print_table

_RUN_S = 60
_RUNS: dict[str, dict[str, object]] = {
    "torch ps-async": {"strategy": "ps-async", "layout": "cluster2"},
    "torch single": {"strategy": "single", "layout": "single"},
    # No traced steps: throughput never includes them, and here one would take time from a single slot.
    "tensorflow ps-async": {"engine": "tensorflow", "strategy": "ps-async", "layout": "cluster2", "trace_every": 0},
}


def overhead(rounds: int) -> None:
    """One minute per kind of run and round."""
    measurements: dict[str, Measurement] = {}
    ratios = {}
    for name, fields in _RUNS.items():
        blocks: list[Block] = []
        for number in range(1, rounds + 1):
            complete = run_interleaved(stop=f"seconds={_RUN_S}", **fields)
            undisturbed = [block for block in complete if not block.is_disturbed]
            blocks += undisturbed
            note = f"{_summary(undisturbed)}; {len(complete) - len(undisturbed)} blocks left out because of CPU steal"
            console.print(f"  {name}, run {number} of {rounds}: {note}", style="dim")
        if not blocks:
            raise RuntimeError(f"{name}: CPU steal was too high in every block: measure again on a less busy machine")
        measurements[f"{name}, measured"] = Measurement(tuple(block.measured for block in blocks))
        measurements[f"{name}, not measured"] = Measurement(tuple(block.unmeasured for block in blocks))
        ratios[f"{name}: slowdown in %"] = (100 * slowdown(blocks), f"expected: at most 2; {_summary(blocks)}")
    print_table("Overhead of recording and sampling (logreg, batch 100)", measurements, ratios)


def _summary(blocks: list[Block]) -> str:
    if not blocks:
        return "no usable block of slots"
    low, high = slowdown_interval(blocks)
    interval = f"95 % interval {100 * low:.1f} to {100 * high:.1f}"
    return f"{100 * slowdown(blocks):.2f} % slower, {interval}, {len(blocks)} blocks of slots"
