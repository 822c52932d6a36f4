"""Writes docs/reports.md with the output of `paceline reproduce`.

Usage: python docs/reports.py RUNS [RECIPE ...]

With names of recipes, only their sections of the page are replaced. `make reports` writes all sections from runs/.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from paceline.recipes.recipe import find, recipes, reports

PAGE = Path(__file__).with_name("reports.md")
_HEAD = """# The reports' tables and figures, made again

Paceline grew from five evaluation reports of distributed training. `paceline reproduce` lists what of them it can make
again, `paceline reproduce report1-table4` makes a small form of a table in a minute or few, and `--full` one of the
report's own size. Cells are ours, with the report's figure in brackets where it printed one. What a report found in
words is tested on our figures.

The reports had nodes with 10 to 20 cores each and links of 1.8 or 10 Gb/s. Below, hosts are network namespaces of one
small machine (plain processes where there is one host) and share its cores: figures of one host, of convergence and of
who does how much of the work can be compared, and figures that grow with the number of machines cannot.

Everything below this line was written by `docs/reports.py` from runs that were really made; do not edit.
"""


def main(runs: str, *names: str) -> None:
    selected = [recipe.name for name in names or ("all",) for recipe in find(name)]
    command = [sys.executable, "-m", "paceline", "reproduce", *selected, "--format", "md", "--runs", runs]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    sections = _sections(PAGE.read_text("utf-8") if names and PAGE.exists() else "") | _sections(output)
    missing = [name for name in recipes() if name not in sections]
    note = f"\nNot measured for this page: {', '.join(missing)}.\n" if missing else ""
    PAGE.write_text(f"{_HEAD}{note}\n" + "\n".join(_in_order(sections)), encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """The sections of the page by recipe; the introduction of a report is under the name of the report."""
    parts = re.split(r"^(?=###? )", text, flags=re.MULTILINE)
    heads = {part: re.match(r"##(#?) (?:Report )?([\w-]+)", part) for part in parts}
    return {(head[2] if head[1] else f"report{head[2]}"): part.rstrip() + "\n" for part, head in heads.items() if head}


def _in_order(sections: dict[str, str]) -> Iterator[str]:
    for report in reports():
        of_report = [sections[name] for name in recipes() if name in sections and name.startswith(f"{report}-")]
        yield from [sections[report], *of_report] if of_report else []


if __name__ == "__main__":
    main(*sys.argv[1:])
