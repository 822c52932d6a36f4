"""Runs docs/guide/notebook.ipynb, stores its outputs in it, and writes docs/guide/notebook.md from both.

Run by `make notebook`. With `--page` it writes only the page, from the outputs that the notebook has.
"""

import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "guide" / "notebook.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")
_KERNEL = "python3"
_HEAD = "<!-- Written by `make notebook` from notebook.ipynb; do not edit. -->\n\n"
_DOWNLOAD = (
    "\n\nThis page is a notebook: [download it](notebook.ipynb). Its outputs are from a machine with 2 cores; "
    "`make notebook` runs it again.\n"
)


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def execute(notebook: Any, directory: str) -> None:
    """Run all cells in a directory, in place; an exception if a cell raises one."""
    NotebookClient(notebook, timeout=300, kernel_name=_KERNEL, resources={"metadata": {"path": directory}}).execute()


def page(notebook: Any) -> str:
    """The notebook as Markdown: text, code, and what each cell shows."""
    parts = [_cell(cell) for cell in notebook.cells]
    return _HEAD + "\n\n".join(parts) + _DOWNLOAD


def _cell(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    return "\n\n".join([f"```python\n{cell.source}\n```", *(shown for out in cell.outputs if (shown := _output(out)))])


def _output(output: Any) -> str:
    data = output.get("data", {})
    html = data.get("text/html")
    if html and html.lstrip().startswith("<pre"):
        return f'<div class="output">\n{_without_blank_lines(html)}\n</div>'
    text = data.get("text/plain") or output.get("text", "")
    return f'<div class="output">\n<pre>{_without_blank_lines(escape(text.rstrip()))}</pre>\n</div>' if text else ""


def _without_blank_lines(html: str) -> str:
    """Markdown ends a block of HTML at a blank line: a space keeps it together."""
    return re.sub(r"\n(?=\n)", "\n ", html.rstrip())


def _clean(notebook: Any) -> None:
    """Leave out what differs each time without meaning anything."""
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata = {"kernelspec": {"name": _KERNEL, "display_name": "Python 3", "language": "python"}}


if __name__ == "__main__":
    made = read_notebook()
    if "--page" not in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="paceline-notebook-") as folder:
            execute(made, folder)
        _clean(made)
        nbformat.write(made, NOTEBOOK)
    PAGE.write_text(page(made), encoding="utf-8")
