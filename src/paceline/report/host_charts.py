"""CPU, memory, network and disk of each host over time, with steps and incidents marked."""

from collections.abc import Sequence

import polars as pl

from paceline.analyze.timeline import downsampled, host_rates
from paceline.report.chart import Chart, Layout, Trace, View, axes, axis, colour, packed
from paceline.report.fault_marks import about_faults, mark_faults
from paceline.report.html import label
from paceline.report.run_data import RunData

_POINTS = 600
_MARKS = 300
_ROWS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("CPU cores", (("cpu_cores", "", "solid"),)),
    ("memory MB", (("memory_mb", "", "solid"),)),
    ("external MB/s", (("external_rx_mb_s", "in", "solid"), ("external_tx_mb_s", "out", "dot"))),
    ("loopback MB/s", (("loopback_rx_mb_s", "in", "solid"), ("loopback_tx_mb_s", "out", "dot"))),
    ("disk MB/s", (("disk_read_mb_s", "read", "solid"), ("disk_write_mb_s", "written", "dot"))),
)
"""Each subplot: its title, and its lines as column, direction and dash."""


def host_metrics(run: RunData) -> Chart | None:
    rates = host_rates(run.samples)
    if not len(rates):
        return None
    shared = {host.host for host in run.result.hosts if "machine" in host.scope.get("network", "")}
    traces: list[Trace] = []
    for number, ((host,), mine) in enumerate(rates.group_by("host", maintain_order=True)):
        for row, (title, lines) in enumerate(_ROWS):
            of_machine = host in shared and title.startswith(("external", "loopback"))
            # What all hosts share is drawn once.
            if not of_machine or number == 0:
                traces += _lines(run, mine, "machine" if of_machine else str(host), number, row, lines)
    traces += _marks(run, len(_ROWS))
    return Chart(
        key="hosts",
        title="CPU, memory, network and disk of each host",
        reading=(
            "Solid lines are in or read, dotted ones out or written; the marks below are steps of the first worker "
            "and evaluations, red lines are incidents. 0 is the start of the training; double-click for the start-up."
            + (" The network is the machine's, which all hosts share: it is drawn once." if shared else "")
            + about_faults(run.result)
        ),
        views=[View("", traces, _layout(run))],
        height=880,
    )


def _lines(
    run: RunData, table: pl.DataFrame, host: str, number: int, row: int, lines: Sequence[tuple[str, str, str]]
) -> list[Trace]:
    found: list[Trace] = []
    for column, way, dash in lines:
        values = table[column].to_numpy()
        kept = downsampled(values, _POINTS)
        found.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": label(host),
                "legendgroup": label(host),
                "showlegend": row == 0,
                "x": packed(table["t_s"].to_numpy()[kept] - run.start_s),
                "y": packed(values[kept], "f4"),
                "yaxis": f"y{axis(row)}",
                "line": {"color": colour(number), "dash": dash, "width": 1.5},
                "hovertemplate": f"%{{y:.3s}} {way}" if way else "%{y:.3s}",
            }
        )
    return found


def _marks(run: RunData, row: int) -> list[Trace]:
    """Steps of the first worker, evenly thinned out, and evaluations."""
    found = []
    for kind, name, symbol, number in (("step", "steps", "line-ns-open", 6), ("eval", "evaluations", "diamond", 3)):
        rows = run.steps.filter(pl.col("kind") == kind)
        if not len(rows):
            continue
        rows = rows.filter(pl.col("task") == rows["task"].min()).sort("t_s")
        every = -(-len(rows) // _MARKS) or 1
        rows = rows.gather_every(every)
        said = name if every == 1 else f"one in {every:,} {name}"
        found.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": said,
                "x": packed(rows["t_s"].to_numpy() - run.start_s),
                "y": [name] * len(rows),
                "yaxis": f"y{axis(row)}",
                "customdata": rows["step"].to_list(),
                "marker": {"symbol": symbol, "size": 8, "color": colour(number)},
                "hovertemplate": "step %{customdata}",
            }
        )
    return found


def _layout(run: RunData) -> Layout:
    layout = axes([*(title for title, _ in _ROWS), ""], "seconds of training", weights=(*(1.0,) * len(_ROWS), 0.4))
    layout[f"yaxis{axis(len(_ROWS))}"] |= {"type": "category", "showgrid": False}
    for row in range(len(_ROWS)):
        layout[f"yaxis{axis(row)}"]["rangemode"] = "tozero"
    if run.result.train_s > 0:
        layout["xaxis"]["range"] = [-0.03 * run.result.train_s, 1.03 * run.result.train_s]
    line = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "#D55E00", "width": 2, "dash": "dash"}}
    at = [(incident.t_s - run.start_s, incident.what) for incident in run.result.incidents]
    layout["shapes"] = [{**line, "x0": seconds, "x1": seconds} for seconds, _ in at]
    layout["annotations"] = [
        {"x": seconds, "yref": "paper", "y": 1, "text": label(_short(what)), "showarrow": False, "yanchor": "bottom"}
        for seconds, what in at[:5]
    ]
    mark_faults(layout, run.result)
    return layout


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
