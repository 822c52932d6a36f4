"""The generated page is what the code says now."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "support.py"


def test_the_support_table_is_up_to_date() -> None:
    made = runpy.run_path(str(SCRIPT))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run `make docs`"
