"""What measuring costs: turns with and without it inside of the same run."""

from bench.measure import Pace, console, show
from bench.turns import Block, in_turns_inside, interval, slower

_RUN_S = 60
_RUNS: dict[str, dict[str, object]] = {
    "torch ps-async": {"strategy": "ps-async", "layout": "cluster2"},
    "torch single": {"strategy": "single", "layout": "single"},
    # A traced step counts in no throughput; here it would fall into one turn and not into the other.
    "tensorflow ps-async": {"engine": "tensorflow", "strategy": "ps-async", "layout": "cluster2", "trace_every": 0},
}


def overhead(rounds: int) -> None:
    """A minute of turns for each kind of run and round."""
    paces: dict[str, Pace] = {}
    claims = {}
    for name, fields in _RUNS.items():
        blocks: list[Block] = []
        for number in range(1, rounds + 1):
            found = in_turns_inside(stop=f"seconds={_RUN_S}", **fields)
            quiet = [block for block in found if not block.disturbed]
            blocks += quiet
            note = f"{_told(quiet)}; {len(found) - len(quiet)} blocks were disturbed"
            console.print(f"  {name}, run {number} of {rounds}: {note}", style="dim")
        if not blocks:
            raise RuntimeError("the machine below took cores away all the time: nothing can be said of what costs 2 %")
        paces[f"{name}, measured"] = Pace(tuple(block.on for block in blocks))
        paces[f"{name}, not measured"] = Pace(tuple(block.off for block in blocks))
        claims[f"{name}: slow-down in %"] = (100 * slower(blocks), f"wanted: 2 at most; {_told(blocks)}")
    show("What measuring costs (logreg, batch 100)", paces, claims)


def _told(blocks: list[Block]) -> str:
    if not blocks:
        return "no block of turns was undisturbed"
    least, most = interval(blocks)
    sure = f"at 95 % between {100 * least:.1f} and {100 * most:.1f}"
    return f"{100 * slower(blocks):.2f} % slower, {sure}, {len(blocks)} blocks of turns"
