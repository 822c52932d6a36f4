"""What is generated from the options of the spec is what they say now."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_options_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "options.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run `make docs`"


def test_the_signature_of_paceline_run_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "python_api.py"))
    assert made["MODULE"].read_text(encoding="utf-8") == made["module"](), "run `make docs`"
