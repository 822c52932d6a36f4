"""The style sheet and the script of the page, each as one text."""

from functools import cache
from importlib.resources import files

from paceline.errors import PageError
from paceline.present.colours import BLACK, FAULT_COLOUR, INCIDENT_COLOUR, LINE_COLOURS, PHASE_COLOURS

_STYLES = ("vendor/uPlot.min.css", "web/style.css", "web/charts.css", "web/live.css")
_SCRIPTS = (
    "vendor/uPlot.iife.js",
    "web/core.js",
    "web/bars.js",
    "web/points.js",
    "web/lines.js",
    "web/timeline.js",
    "web/flames.js",
    "web/table.js",
    "web/why.js",
    "web/whatif.js",
    "web/blocks.js",
    "web/runs.js",
    "web/live.js",
    "web/app.js",
)
"""In this order: `app.js` starts the page."""


@cache
def stylesheet() -> str:
    """The style sheet, with the colours that the terminal uses too."""
    return "\n".join([_palette(), *map(_file, _STYLES)])


@cache
def script() -> str:
    return "\n".join(map(_file, _SCRIPTS))


def _palette() -> str:
    colours = {f"phase-{name}": colour for name, colour in PHASE_COLOURS.items()}
    colours |= {f"line-{number}": colour for number, colour in enumerate(LINE_COLOURS)}
    colours |= {"fault": FAULT_COLOUR, "incident": INCIDENT_COLOUR}
    # Black cannot be seen on a dark page.
    rules = [f"--{name}: {'var(--ink)' if colour == BLACK else colour};" for name, colour in colours.items()]
    return f":root {{ {' '.join(rules)} }}"


def _file(name: str) -> str:
    try:
        return (files("paceline.page") / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PageError(
            f"the page cannot be drawn: {name} of the package paceline is missing; install Paceline again"
        ) from None
