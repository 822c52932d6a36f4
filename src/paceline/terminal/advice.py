"""The answer of `paceline advise`."""

from rich.console import Group, RenderableType
from rich.text import Text

from paceline.prediction.results import Advice, Goal
from paceline.present.numbers import count, duration, number, percent
from paceline.terminal.fitting_table import Lines, UnwrappedLine
from paceline.terminal.tables import align_right, plain_table


def advice_view(advice: Advice, goal: Goal) -> RenderableType:
    """The candidates, the best first, then the answer: a command."""
    unit = "seconds" if goal.target else advice.goal
    table = plain_table("strategy", "layout", "batch", f"predicted {unit}", f"now {unit}", "runs", "")
    align_right(table, "batch", f"predicted {unit}", f"now {unit}", "runs")
    anchored = any(one.runs for one in advice.candidates)
    for one in sorted(advice.candidates, key=lambda one: -one.expected):
        predicted, expected = (1 / value if goal.target else value for value in (one.predicted, one.expected))
        table.add_row(
            one.strategy,
            one.layout,
            str(one.batch),
            "-" if goal.target else number(predicted),
            number(expected) if anchored or not goal.target else "-",
            str(len(one.runs)),
            "" if one.alive else "ruled out",
        )
    lines = [
        f"{count(advice.runs, 'run')} in {duration(advice.seconds)} of {duration(advice.budget_s)}; the winner is "
        f"within 3 % of the best candidate with probability {percent(advice.sure)}"
    ]
    if advice.ties:
        lines.append(f"the runs cannot tell it from {count(len(advice.ties), 'other candidate')}:")
    measured = goal.text(advice.value) if advice.value else "no run of it succeeded"
    parts: list[RenderableType] = [table, Text(), Lines(lines)]
    parts += [UnwrappedLine(f"    {tie}") for tie in advice.ties]
    parts += [Text(), Text(f"best: {measured}"), UnwrappedLine(f"  {advice.command}")]
    return Group(*parts)
