"""How a table made again is drawn."""

from paceline.recipes.comparison import Cell, Row, TableComparison
from paceline.recipes.recipe import Column, Key, Recipe
from paceline.recipes.reproduction import Reproduction
from paceline.terminal.reproduction import grid, markdown, record


def recipe(across: str | None) -> Recipe:
    return Recipe(
        name="report9-table1",
        spec={"workload": "logreg"},
        title="pace by mode",
        keys=(Key("Mode", "strategy"), Key("VM", "host")),
        figures=(Column("Pace", "updates_per_s"), Column("Loss", "loss", digits=3)),
        across=across,
        notes=("a|b",),
    )


MADE = TableComparison(
    (
        Row(("sync", "vm-1"), (Cell(12.34, 10.0), Cell(0.5, None))),
        Row(("sync", "vm-2"), (Cell(None, (1.0, 2.0)), Cell(0.25, None))),
    ),
    left_out=0,
    tested=(),
)


def test_cells_are_ours_with_theirs_in_brackets() -> None:
    head, rows = grid(recipe(None), MADE)
    assert head == ["Mode", "VM", "Pace", "Loss"]
    assert rows == [["sync", "vm-1", "12.3 (10)", "0.500"], ["sync", "vm-2", "- (1 to 2)", "0.250"]]


def test_a_key_can_stand_at_the_head_of_the_columns() -> None:
    head, rows = grid(recipe("VM"), MADE)
    assert head == ["Mode", "VM", "vm-1", "vm-2"]
    assert rows == [["sync", "Pace", "12.3 (10)", "- (1 to 2)"], ["sync", "Loss", "0.500", "0.250"]]


def test_markdown_and_json_tell_the_same() -> None:
    one = Reproduction(recipe=recipe(None), full=True, made=MADE, runs=("r-1",), remarks=("measured",))
    page = markdown(one)
    assert "| sync | vm-1 | 12.3 (10) | 0.500 |" in page
    assert "`paceline reproduce report9-table1 --full`" in page
    assert "- a\\|b" in page
    told = record(one)
    assert told["rows"][0] == {
        "Mode": "sync", "VM": "vm-1", "Pace": {"ours": 12.34, "theirs": 10.0}, "Loss": {"ours": 0.5, "theirs": None},
    }  # fmt: skip
    assert told["form"] == "full"
