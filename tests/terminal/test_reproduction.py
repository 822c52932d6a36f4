"""How a reproduced table is shown."""

from paceline.recipes.comparison import Cell, Row, TableComparison
from paceline.recipes.recipe import Column, Key, Recipe
from paceline.recipes.reproduction import Reproduction
from paceline.terminal.reproduction import grid, markdown, record


def recipe(across: str | None) -> Recipe:
    return Recipe(
        name="report9-table1",
        spec={"workload": "logreg"},
        title="throughput by mode",
        keys=(Key("Mode", "strategy"), Key("VM", "host")),
        columns=(Column("Updates/s", "updates_per_s"), Column("Loss", "loss", digits=3)),
        across=across,
        notes=("a|b",),
    )


TABLE = TableComparison(
    (
        Row(("sync", "vm-1"), (Cell(12.34, 10.0), Cell(0.5, None))),
        Row(("sync", "vm-2"), (Cell(None, (1.0, 2.0)), Cell(0.25, None))),
    ),
    missing_rows=0,
    claims=(),
)


def test_cells_have_our_value_and_the_published_one_in_parentheses() -> None:
    head, rows = grid(recipe(None), TABLE)
    assert head == ["Mode", "VM", "Updates/s", "Loss"]
    assert rows == [["sync", "vm-1", "12.3 (10)", "0.500"], ["sync", "vm-2", "- (1–2)", "0.250"]]


def test_the_values_of_a_key_can_be_column_headings() -> None:
    head, rows = grid(recipe("VM"), TABLE)
    assert head == ["Mode", "VM", "vm-1", "vm-2"]
    assert rows == [["sync", "Updates/s", "12.3 (10)", "- (1–2)"], ["sync", "Loss", "0.500", "0.250"]]


def test_markdown_and_json_have_the_same_values() -> None:
    one = Reproduction(recipe=recipe(None), full=True, table=TABLE, runs=("r-1",), notes=("measured",))
    page = markdown(one)
    assert "| sync | vm-1 | 12.3 (10) | 0.500 |" in page
    assert "`paceline reproduce report9-table1 --full`" in page
    assert "- a\\|b" in page
    rows = record(one)
    assert rows["rows"][0] == {
        "Mode": "sync", "VM": "vm-1",
        "Updates/s": {"ours": 12.34, "theirs": 10.0}, "Loss": {"ours": 0.5, "theirs": None},
    }  # fmt: skip
    assert rows["form"] == "full"
