"""What measuring costs: turns with and without it inside of the same run."""

from statistics import median

from bench.measure import Pace, console, show
from bench.turns import Block, in_turns_inside, middle

_RUN_S = 60


def overhead(rounds: int) -> None:
    """A minute of turns for each strategy and round."""
    paces: dict[str, Pace] = {}
    claims = {}
    for strategy, layout in (("ps-async", "cluster2"), ("single", "single")):
        blocks: list[Block] = []
        for number in range(1, rounds + 1):
            found = in_turns_inside(strategy=strategy, layout=layout, stop=f"seconds={_RUN_S}")
            quiet = [block for block in found if not block.disturbed]
            blocks += quiet
            note = f"{_told(quiet)}; {len(found) - len(quiet)} blocks were disturbed"
            console.print(f"  {strategy}, run {number} of {rounds}: {note}", style="dim")
        if not blocks:
            raise RuntimeError("the machine below took cores away all the time: nothing can be said of what costs 2 %")
        paces[f"{strategy}, measured"] = Pace(tuple(block.on for block in blocks))
        paces[f"{strategy}, not measured"] = Pace(tuple(block.off for block in blocks))
        slower = 100 * median(block.slower for block in blocks)
        claims[f"{strategy}: slow-down in %"] = (slower, f"wanted: 2 at most; {_told(blocks)}")
    show("What measuring costs (torch, logreg, batch 100)", paces, claims)


def _told(blocks: list[Block]) -> str:
    if not blocks:
        return "no block of turns was undisturbed"
    slower = [100 * block.slower for block in blocks]
    least, most = middle(slower)
    return f"{median(slower):.2f} % slower, at 95 % between {least:.1f} and {most:.1f}, {len(blocks)} blocks of turns"
