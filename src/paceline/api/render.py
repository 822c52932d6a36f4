"""Turns what the terminal shows into text and into HTML for notebooks."""

from io import StringIO

from rich.console import Console, RenderableType

from paceline.terminal.sanitize import sanitized

_WIDTH = 120
_PAGE = '<pre style="white-space:pre;overflow-x:auto;line-height:1.3;font-size:0.9em">{code}</pre>'


def as_text(renderable: RenderableType) -> str:
    """Plain text, as `paceline show` prints it to a file."""
    console = sanitized(Console(file=StringIO(), width=_WIDTH, color_system=None, force_jupyter=False, highlight=False))
    console.print(renderable, crop=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return str(text).rstrip()


def as_html(renderable: RenderableType) -> str:
    """The same with colours, as an HTML element that notebooks show. All text in it is escaped."""
    console = sanitized(
        Console(file=StringIO(), width=_WIDTH, record=True, force_jupyter=False, highlight=False, force_terminal=True)
    )
    console.print(renderable, crop=False)
    return console.export_html(code_format=_PAGE, inline_styles=True)
