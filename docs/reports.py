"""Writes docs/reports.md from runs: the tables come from `paceline reproduce` and from nowhere else.

python docs/reports.py RUNS [RECIPE ...]    all recipes, or only those named; `make reports` is all of them in runs/
"""

import subprocess
import sys
from pathlib import Path

from paceline.recipes.recipe import find, recipes

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
    wanted = [one.name for name in names or ("all",) for one in find(name)]
    command = [sys.executable, "-m", "paceline", "reproduce", *wanted, "--format", "md", "--runs", runs]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    missing = [name for name in recipes() if name not in wanted]
    note = f"\nNot measured for this page: {', '.join(missing)}.\n" if missing else ""
    PAGE.write_text(f"{_HEAD}{note}\n{made.rstrip()}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
