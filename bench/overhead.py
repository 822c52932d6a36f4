"""What measuring costs: turns with and without it inside of the same run."""

from bench.measure import Pace, console, show
from bench.turns import Block, in_turns_inside, interval, slower

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
        claims[f"{strategy}: slow-down in %"] = (100 * slower(blocks), f"wanted: 2 at most; {_told(blocks)}")
    show("What measuring costs (torch, logreg, batch 100)", paces, claims)


def _told(blocks: list[Block]) -> str:
    if not blocks:
        return "no block of turns was undisturbed"
    least, most = interval(blocks)
    sure = f"at 95 % between {100 * least:.1f} and {100 * most:.1f}"
    return f"{100 * slower(blocks):.2f} % slower, {sure}, {len(blocks)} blocks of turns"
