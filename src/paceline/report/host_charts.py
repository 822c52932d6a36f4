"""Chart of CPU, memory, network and disk of each host over time."""

import polars as pl

from paceline.analyze.timeline import downsampled, host_rates
from paceline.page.blocks import Limit, Line, Lines, LineView, Panel, compact
from paceline.report.curve_charts import OVER_TIME
from paceline.report.fault_marks import marks_of
from paceline.report.run_data import RunData

_POINTS = 240
"""Most points of a line."""
_PANELS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("CPU (cores)", (("cpu_cores", ""),)),
    ("memory (MB)", (("memory_mb", ""),)),
    ("network (MB/s)", (("external_rx_mb_s", " in"), ("external_tx_mb_s", " out"))),
    ("loopback (MB/s)", (("loopback_rx_mb_s", " in"), ("loopback_tx_mb_s", " out"))),
    ("disk (MB/s)", (("disk_read_mb_s", " read"), ("disk_write_mb_s", " written"))),
)
"""Each panel: its title, and its lines as column and direction. The second line of a host is dashed."""


def host_metrics(run: RunData) -> Lines | None:
    rates = host_rates(run.samples)
    if run.result.train_s > 0:
        shown = pl.col("t_s").is_between(run.start_s - 1, run.start_s + run.result.train_s * 1.03)
        rates = rates.filter(shown) if len(rates.filter(shown)) else rates
    if not len(rates):
        return None
    shared = {host.host for host in run.result.hosts if "machine" in host.scope.get("network", "")}
    panels = [panel for title, columns in _PANELS if (panel := _panel(run, rates, title, columns, shared))]
    return Lines(
        key="hosts",
        title="CPU, memory, network and disk of each host",
        caption=(
            "Solid lines: received or read. Dashed lines: sent or written. Red dotted lines: cores of the machine and "
            "capacity of a link. Training starts at 0."
            + (" All hosts share the machine's network, so it is drawn once." if shared else "")
        ),
        views=[LineView(name="", x_title=OVER_TIME, panels=panels)],
        marks=marks_of(run.result, run.start_s),
    )


def _panel(
    run: RunData, rates: pl.DataFrame, title: str, columns: tuple[tuple[str, str], ...], shared: set[str]
) -> Panel | None:
    of_machine = title.startswith(("network", "loopback"))
    lines = []
    for number, ((host,), table) in enumerate(rates.group_by("host", maintain_order=True)):
        # Metrics of the machine are the same for all hosts: they are drawn once.
        if of_machine and host in shared and number:
            continue
        name = "machine" if of_machine and host in shared else str(host)
        for second, (column, direction) in enumerate(columns):
            values = table[column].to_numpy()
            kept = downsampled(values, _POINTS)
            xs = [x or 0.0 for x in compact(table["t_s"].to_numpy()[kept] - run.start_s)]
            lines.append(
                Line(name=f"{name}{direction}", x=xs, y=compact(values[kept], 4), colour=number, dashed=second > 0)
            )
    if not any(value for line in lines for value in line.y):
        return None
    return Panel(title=title, lines=lines, zero=True, limits=_limits(run, title))


def _limits(run: RunData, title: str) -> list[Limit]:
    if title.startswith("CPU") and run.result.machine_cores:
        text = "cores of the machine" if run.result.one_machine else "cores of all machines"
        return [Limit(name=text, value=run.result.machine_cores)]
    if title.startswith("network"):
        rates = {round(link.tx_mb_s, 3) for host in run.result.hosts if (link := host.link)}
        return [Limit(name=f"link {rate:.4g} MB/s", value=rate) for rate in sorted(rates)]
    return []
