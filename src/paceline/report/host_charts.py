"""Chart of CPU, memory, network and disk of each host over time, with steps and incidents."""

from collections.abc import Sequence

import polars as pl

from paceline.analyze.timeline import downsampled, host_rates
from paceline.present.colours import INCIDENT_COLOUR
from paceline.report.chart import Chart, Layout, Trace, View, axis_suffix, encoded, line_colour, stacked_axes
from paceline.report.fault_marks import faults_caption, mark_faults
from paceline.report.html import chart_text
from paceline.report.run_data import RunData

_POINTS = 600
"""Most points of a line."""
_MARKERS = 300
"""Most markers of steps."""
_MOST_LABELS = 5
"""Most incidents whose text is shown; more would overlap."""
_ROWS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("CPU cores", (("cpu_cores", "", "solid"),)),
    ("memory (MB)", (("memory_mb", "", "solid"),)),
    ("network (MB/s)", (("external_rx_mb_s", "in", "solid"), ("external_tx_mb_s", "out", "dot"))),
    ("loopback (MB/s)", (("loopback_rx_mb_s", "in", "solid"), ("loopback_tx_mb_s", "out", "dot"))),
    ("disk (MB/s)", (("disk_read_mb_s", "read", "solid"), ("disk_write_mb_s", "written", "dot"))),
)
"""Each subplot: its title, and its lines as column, direction and dash."""


def host_metrics(run: RunData) -> Chart | None:
    rates = host_rates(run.samples)
    if not len(rates):
        return None
    shared = {host.host for host in run.result.hosts if "machine" in host.scope.get("network", "")}
    traces: list[Trace] = []
    for number, ((host,), table) in enumerate(rates.group_by("host", maintain_order=True)):
        for row, (title, lines) in enumerate(_ROWS):
            of_machine = host in shared and title.startswith(("network", "loopback"))
            # Metrics of the machine are the same for all hosts: they are drawn once.
            if not of_machine or number == 0:
                traces += _lines(run, table, "machine" if of_machine else str(host), number, row, lines)
    traces += _step_markers(run, len(_ROWS))
    return Chart(
        key="hosts",
        title="CPU, memory, network and disk of each host",
        caption=(
            "Solid lines: received or read. Dotted lines: sent or written. Markers at the bottom: steps of the first "
            "worker and evaluations. Dashed vertical lines: incidents. Training starts at 0; double-click to see the "
            "startup."
            + (" All hosts share the machine's network, so it is drawn once." if shared else "")
            + faults_caption(run.result)
        ),
        views=[View("", traces, _layout(run))],
        height=880,
    )


def _lines(
    run: RunData, table: pl.DataFrame, host: str, number: int, row: int, lines: Sequence[tuple[str, str, str]]
) -> list[Trace]:
    traces: list[Trace] = []
    for column, direction, dash in lines:
        values = table[column].to_numpy()
        kept = downsampled(values, _POINTS)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": chart_text(host),
                "legendgroup": chart_text(host),
                "showlegend": row == 0,
                "x": encoded(table["t_s"].to_numpy()[kept] - run.start_s),
                "y": encoded(values[kept], "f4"),
                "yaxis": f"y{axis_suffix(row)}",
                "line": {"color": line_colour(number), "dash": dash, "width": 1.5},
                "hovertemplate": f"%{{y:.3s}} {direction}" if direction else "%{y:.3s}",
            }
        )
    return traces


def _step_markers(run: RunData, row: int) -> list[Trace]:
    """Every n-th step of the first worker, and evaluations."""
    traces = []
    for kind, name, symbol, number in (("step", "steps", "line-ns-open", 6), ("eval", "evaluations", "diamond", 3)):
        rows = run.steps.filter(pl.col("kind") == kind)
        if not len(rows):
            continue
        rows = rows.filter(pl.col("task") == rows["task"].min()).sort("t_s")
        every = -(-len(rows) // _MARKERS) or 1
        rows = rows.gather_every(every)
        legend = name if every == 1 else f"one in {every:,} {name}"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": legend,
                "x": encoded(rows["t_s"].to_numpy() - run.start_s),
                "y": [name] * len(rows),
                "yaxis": f"y{axis_suffix(row)}",
                "customdata": rows["step"].to_list(),
                "marker": {"symbol": symbol, "size": 8, "color": line_colour(number)},
                "hovertemplate": "step %{customdata}",
            }
        )
    return traces


def _layout(run: RunData) -> Layout:
    layout = stacked_axes(
        [*(title for title, _ in _ROWS), ""], "training time (s)", weights=(*(1.0,) * len(_ROWS), 0.4)
    )
    layout[f"yaxis{axis_suffix(len(_ROWS))}"] |= {"type": "category", "showgrid": False}
    for row in range(len(_ROWS)):
        layout[f"yaxis{axis_suffix(row)}"]["rangemode"] = "tozero"
    if run.result.train_s > 0:
        layout["xaxis"]["range"] = [-0.03 * run.result.train_s, 1.03 * run.result.train_s]
    line = {
        "type": "line",
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": INCIDENT_COLOUR, "width": 2, "dash": "dash"},
    }
    incidents = [(incident.t_s - run.start_s, incident.what) for incident in run.result.incidents]
    layout["shapes"] = [{**line, "x0": seconds, "x1": seconds} for seconds, _ in incidents]
    layout["annotations"] = [
        {
            "x": seconds,
            "yref": "paper",
            "y": 1,
            "text": chart_text(_shortened(what)),
            "showarrow": False,
            "yanchor": "bottom",
        }
        for seconds, what in incidents[:_MOST_LABELS]
    ]
    mark_faults(layout, run.result)
    return layout


def _shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
