"""What a page consists of, as plain data: sections of blocks. `web/` has a function that draws each kind of block.

All text in blocks is plain text; the functions that draw it never parse it as HTML.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


class Block(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """A part of a section. The tag is the kind, which names the function in `web/` that draws it."""


class Text(Block, frozen=True, kw_only=True, tag="text"):
    text: str
    tone: str = ""
    """`soft` for an explanation, `bad` for a problem."""


class Items(Block, frozen=True, kw_only=True, tag="items"):
    title: str
    items: Sequence[str]
    tone: str = ""


class Goal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The best configuration for one goal."""

    goal: str
    winner: str
    value: str
    lead: str
    """By how much it leads, with the confidence interval."""
    significant: bool = False


class Goals(Block, frozen=True, kw_only=True, tag="goals"):
    rows: Sequence[Goal]


class Facts(Block, frozen=True, kw_only=True, tag="facts"):
    """Labels and values."""

    title: str
    rows: Sequence[tuple[str, str]]


class Bar(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    label: str
    value: float
    text: str
    low: float | None = None
    """Smallest and largest value over the repeats."""
    high: float | None = None
    best: bool = False
    badge: str = ""
    """What the best one is called, if not `best`."""
    note: str = ""
    """Shown beside the bar: the bottleneck."""


class BarView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    rows: Sequence[Bar]
    better: str = ""
    """`less` or `more`."""


class Bars(Block, frozen=True, kw_only=True, tag="bars"):
    """Horizontal bars, one for each configuration; each view shows another metric."""

    key: str
    title: str
    caption: str
    views: Sequence[BarView]
    note_title: str = ""


class ShareRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    label: str
    parts: dict[str, float]
    """By phase."""


class ShareView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    unit: str
    rows: Sequence[ShareRow]


class Shares(Block, frozen=True, kw_only=True, tag="shares"):
    """Stacked bars: the phases of workers or configurations."""

    key: str
    title: str
    caption: str
    views: Sequence[ShareView]


class Axis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str
    log: bool = False
    zero: bool = False
    """Starts at 0."""
    ticks: Sequence[float] = ()
    """Where the labels are; empty: at round numbers."""


class PointSeries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    points: Sequence[tuple[float, float, float | None, float | None]]
    """x, y, and the range of y over the repeats."""
    joined: bool = True
    """Whether a line connects the points."""
    best: bool = False
    ideal: bool = False
    """A line without points that shows what would be ideal."""


class PointView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    x: Axis
    y: Axis
    series: Sequence[PointSeries]


class Points(Block, frozen=True, kw_only=True, tag="points"):
    """Few points on two axes: trade-offs and scaling."""

    key: str
    title: str
    caption: str
    views: Sequence[PointView]


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault or an incident on the axis of time."""

    kind: str
    """`fault` or `incident`."""
    at: float
    until: float | None = None
    text: str


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: int = 0
    """Number of the line colour."""
    phase: str = ""
    """The phase whose colour the line has, if it is about one."""
    dashed: bool = False
    thin: bool = False
    points: bool = False
    """Whether each value has a marker."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A horizontal line: the capacity of a link, or the cores of a machine."""

    name: str
    value: float


class Panel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str
    """With the unit."""
    lines: Sequence[Line]
    log: bool = False
    zero: bool = False
    limits: Sequence[Limit] = ()


class LineView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    x_title: str
    panels: Sequence[Panel]


class Lines(Block, frozen=True, kw_only=True, tag="lines"):
    """Lines over time, updates or examples, in panels below each other with a common axis."""

    key: str
    title: str
    caption: str
    views: Sequence[LineView]
    marks: Sequence[Mark] = ()
    """Shown in views over training time."""


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    start: float
    end: float
    spans: Sequence[int]
    """Five whole numbers for each span: row, phase, start (µs after `start`), duration (µs), step."""


class Timeline(Block, frozen=True, kw_only=True, tag="timeline"):
    """Single steps of all tasks, each phase as a bar on the axis of time."""

    key: str
    title: str
    caption: str
    rows: Sequence[str]
    phases: Sequence[str]
    views: Sequence[TimelineView]
    marks: Sequence[Mark] = ()


class FlameView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: Sequence[int]
    """Three whole numbers for each node, parents before their children: depth, number of the name, samples."""


class Flames(Block, frozen=True, kw_only=True, tag="flames"):
    """A flame graph of each rank; the first level below the root are the phases."""

    key: str
    title: str
    caption: str
    names: Sequence[str]
    views: Sequence[FlameView]


class Table(Block, frozen=True, kw_only=True, tag="table"):
    """A table that readers can sort. Cells are texts, or pairs of text and number."""

    key: str
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, float | None]]]


class Remedy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    advice: str
    command: str = ""


class Share(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cause: str
    where: str
    share: float
    meaning: str = ""
    """What this cause means, in a sentence."""


class Why(Block, frozen=True, kw_only=True, tag="why"):
    """A bottleneck and why it is one: the account of the time, evidence, thresholds and what would change it."""

    title: str
    summary: str
    cause: str
    share_of: str
    account: Sequence[Share]
    evidence: Sequence[str]
    thresholds: Sequence[str]
    second: str = ""
    remedies: Sequence[Remedy] = ()
    episodes: Sequence[tuple[float, float, str, str]] = ()
    """The bottlenecks one after the other: start and end (s of training), cause, place."""
    problems: Sequence[tuple[str, Sequence[str]]] = ()
    """Failed runs, faults and incidents: heading and lines."""
    runs: Sequence[str] = ()
    open: bool = True


class Commands(Block, frozen=True, kw_only=True, tag="commands"):
    """Commands that readers can copy."""

    title: str
    rows: Sequence[Remedy]


class WhatIfRun(msgspec.Struct, frozen=True, kw_only=True):
    """A measured run."""

    link: float
    """Rate in bit/s; 0 if it is not known."""
    workers: int
    batch: int
    updates: float
    """Per second."""
    examples: float
    run: str


WhatIfPoint = tuple[float, float, float, float, str]
"""Updates/s, the ends of their 80 % interval, examples per update, and the predicted bottleneck."""


class WhatIf(Block, frozen=True, kw_only=True, tag="whatif"):
    """Predictions for combinations of link rates, numbers of workers and batches, which readers select with sliders."""

    key: str
    title: str
    caption: str
    base: WhatIfRun
    links: Sequence[float]
    """Empty if the rate of the links is not known."""
    workers: Sequence[int]
    batches: Sequence[int]
    points: Sequence[WhatIfPoint | None]
    """For each link, for each number of workers, for each batch; None if there was no time to predict it."""
    measured: Sequence[WhatIfRun]


class WhatIfRequest(Block, frozen=True, kw_only=True, tag="whatif_request"):
    """Predictions that the server of the page makes when a reader asks for them."""

    runs: Sequence[str]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    blocks: Sequence[Block]


class Choice(Block, frozen=True, kw_only=True, tag="choice"):
    """One of several parts, which the reader selects."""

    label: str
    options: Sequence[Option]


class Fold(Block, frozen=True, kw_only=True, tag="fold"):
    """Blocks that are hidden until the reader opens them."""

    title: str
    blocks: Sequence[Block]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    title: str
    blocks: Sequence[Block]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    subtitle: str
    problems: Sequence[str]
    sections: Sequence[Section]


def compact(values: Iterable[Any], digits: int = 5) -> list[float | None]:
    """Numbers with few digits, for small pages; None is not a number."""
    return [None if value != value else _short(value, digits) for value in map(float, values)]


def _short(value: float, digits: int) -> float:
    short = float(f"{value:.{digits}g}")
    return int(short) if abs(short) < 1e15 and short == int(short) else short
