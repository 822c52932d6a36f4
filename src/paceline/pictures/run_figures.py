"""Figures of stored runs, several runs in one: hosts over time, learning curves, and global steps per second."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import median
from typing import Any

import msgspec
import numpy as np
import polars as pl

from paceline.analyze.curves import learning_curves
from paceline.analyze.epochs import examples_per_epoch
from paceline.analyze.repeats import Group, group_names, group_repeats
from paceline.analyze.timeline import downsampled, host_rates
from paceline.analyze.training import training_start_s
from paceline.pictures.figure import Bars, Figure, Line, Panel
from paceline.present.thresholds import SMALLEST_TRAFFIC_MB_S
from paceline.store.result import Result
from paceline.store.run import StoredRun

POINTS = 400
"""Most points of a line: more cannot be seen and make large files."""
_RATE_BINS = 40
_MOST_EPOCHS = 25
"""More ends of epochs would hide the lines."""
_SMOOTHED_S = 0.5
"""Rates are means over this time: single samples show clock ticks and bursts."""
_HOST_PANELS: tuple[tuple[str, str], ...] = (
    ("CPU (cores)", "cpu_cores"),
    ("memory (MB)", "memory_mb"),
    ("network in (MB/s)", "external_rx_mb_s"),
    ("network out (MB/s)", "external_tx_mb_s"),
    ("loopback (MB/s)", "loopback_rx_mb_s"),
    ("disk read (MB/s)", "disk_read_mb_s"),
    ("disk written (MB/s)", "disk_write_mb_s"),
)
_BAR_PANELS = {
    "run time (s)": lambda result: result.train_s,
    "memory of all hosts (MB)": lambda result: sum(host.memory_mb_max for host in result.hosts),
    "CPU of all hosts (cores)": lambda result: sum(host.cpu_cores_mean for host in result.hosts),
    "network in, all hosts (MB/s)": lambda result: sum(host.external.rx_mb_s_mean for host in result.hosts),
}


class NamedRun(msgspec.Struct, frozen=True):
    """A run with the name that it has in the legend."""

    name: str
    result: Result
    stored: StoredRun


def first_of_each(results: Sequence[Result], stored: Mapping[str, StoredRun]) -> list[NamedRun]:
    """The first run of each configuration that ended well; `stored` by the directory of the run."""
    groups = group_repeats([result for result in results if result.status == "ok"])
    names = group_names(groups) if groups else []
    firsts = [(group.ok or group.results)[0] for group in groups]
    return [NamedRun(name, first, stored[first.dir]) for name, first in zip(names, firsts, strict=True)]


def figures_of_runs(results: Sequence[Result], stored: Mapping[str, StoredRun]) -> list[Figure]:
    """All figures for which these runs have data."""
    runs = first_of_each(results, stored)
    found = [hosts_figure(runs), learning_figure(runs), rate_figure(runs), batch_figure(results)]
    return [figure for figure in found if figure]


def hosts_figure(runs: Sequence[NamedRun], *, log_network: bool = False) -> Figure | None:
    """CPU, memory, network, loopback and disk of each host over time, the runs in one picture."""
    tables = [(run, _smoothed(host_rates(run.stored.samples)), training_start_s(run.stored)) for run in runs]
    panels = []
    for title, column in _HOST_PANELS:
        lines = [line for number, one in enumerate(tables) for line in _host_lines(*one, column, number, len(runs))]
        log = log_network and title.startswith("network")
        marks = _epoch_ends(runs[0]) if len(runs) == 1 else ()
        if any(max(line.y, default=0.0) >= SMALLEST_TRAFFIC_MB_S for line in lines):
            panels.append(Panel(title=title, x_label="training time (s)", lines=lines, log_y=log, marks=marks))
    return Figure(name="hosts", title="Hosts over time", panels=panels) if panels else None


def learning_figure(runs: Sequence[NamedRun]) -> Figure | None:
    """Test loss and accuracy by epoch, by step and by seconds."""
    curves = [(run, learning_curves(run.stored, run.result).filter(pl.col("kind") == "eval")) for run in runs]
    curves = [(run, curve) for run, curve in curves if len(curve) > 1]
    if not curves:
        return None
    panels = []
    positions = [by for by in _POSITIONS if by != "epoch" or all(examples_per_epoch(run.stored) for run, _ in curves)]
    for (label, column), by in product((("test loss", "loss"), ("accuracy (%)", "accuracy")), positions):
        lines = [line for number, (run, curve) in enumerate(curves) for line in _curve(run, curve, column, by, number)]
        if any(len(line.y) for line in lines):
            panels.append(Panel(x_label=by, y_label=label, lines=lines))
    return Figure(name="learning", title="Loss and accuracy on the test set", panels=panels, columns=len(positions))


def rate_figure(runs: Sequence[NamedRun]) -> Figure | None:
    """Global steps per second over the steps of the training."""
    lines = [line for number, run in enumerate(runs) if (line := _rate(run, number))]
    if not lines:
        return None
    marks = _epoch_ends(runs[0], by_update=True) if len(runs) == 1 else ()
    panel = Panel(x_label="global step", y_label="global steps/s", lines=lines, marks=marks)
    return Figure(name="steps-per-s", title="Global steps per second", panels=[panel], columns=1)


def batch_figure(results: Sequence[Result]) -> Figure | None:
    """Bars by batch size, if there are several."""
    groups = [group for group in group_repeats(results) if group.ok]
    batches = sorted({group.first.batch for group in groups})
    if len(batches) < 2:
        return None
    series: dict[str, dict[int, Group]] = {}
    for group in groups:
        name = f"{group.first.strategy}, '{group.first.layout}'"
        series.setdefault(name, {})[group.first.batch] = group
    panels = []
    for title, read in _BAR_PANELS.items():
        bars = [_group_bars(name, batches, by_batch, read, n) for n, (name, by_batch) in enumerate(series.items())]
        panels.append(Panel(title=title, x_label="batch size", categories=[str(b) for b in batches], bars=bars))
    return Figure(name="batch", title="By batch size", panels=panels)


_POSITIONS = ("epoch", "global step", "training time (s)")


def _host_lines(run: NamedRun, rates: pl.DataFrame, start_s: float, column: str, number: int, runs: int) -> list[Line]:
    """A line for each host of a run. Colours are of runs, or of hosts if there is one run."""
    lines = []
    for host_number, ((host,), table) in enumerate(rates.group_by("host", maintain_order=True)):
        during = table.filter(pl.col("t_s").is_between(start_s - 0.5, start_s + run.result.train_s + 0.5))
        values = during[column].fill_null(0.0).to_numpy()
        kept = downsampled(values, POINTS)
        lines.append(
            Line(
                name=f"{run.name} {host}" if runs > 1 else str(host),
                x=(during["t_s"].to_numpy()[kept] - start_s).tolist(),
                y=values[kept].tolist(),
                colour=number if runs > 1 else host_number,
                dash=("solid", "dashed", "dotted")[host_number % 3] if runs > 1 else "solid",
            )
        )
    return lines


def _smoothed(rates: pl.DataFrame) -> pl.DataFrame:
    """Rates as means over `_SMOOTHED_S`, for each host."""
    if not len(rates):
        return rates
    window = (pl.col("t_s") / _SMOOTHED_S).floor()
    columns = [name for name in rates.columns if name not in ("host", "t_s")]
    grouped = rates.group_by("host", window.alias("window"), maintain_order=True)
    return grouped.agg(pl.col("t_s").mean(), *(pl.col(name).mean() for name in columns)).sort("host", "t_s")


def _curve(run: NamedRun, curve: pl.DataFrame, column: str, by: str, number: int) -> list[Line]:
    """A line for each worker that evaluated."""
    positions = {
        "epoch": pl.col("examples") / (examples_per_epoch(run.stored) or 1),
        "global step": pl.col("update"),
        "training time (s)": pl.col("seconds"),
    }
    tasks = curve["task"].unique().sort().to_list()
    lines = []
    for place, task in enumerate(tasks):
        scale = 100 if column == "accuracy" else 1
        own = curve.filter((pl.col("task") == task) & pl.col(column).is_not_null())
        table = own.select(x=positions[by].cast(pl.Float64), y=pl.col(column).cast(pl.Float64) * scale)
        lines.append(
            Line(
                name=f"{run.name} {task}" if len(tasks) > 1 else run.name,
                x=table["x"].to_list(),
                y=table["y"].to_list(),
                colour=number,
                dash=("solid", "dashed", "dotted")[place % 3],
                markers=len(table) <= 30,
            )
        )
    return lines


def _rate(run: NamedRun, number: int) -> Line | None:
    steps = run.stored.collect(run.stored.scan_steps().filter(pl.col("kind") == "step").select("t_s", "duration_s"))
    ends = np.sort((steps["t_s"] + steps["duration_s"]).to_numpy())
    if len(ends) < 2:
        return None
    # In a synchronous run, one global step is one step of every worker.
    steps_per_update = len(run.result.workers) if run.result.synchronous else 1
    edges = np.linspace(ends[0], ends[-1], min(_RATE_BINS, len(ends) - 1) + 1)
    counts = np.histogram(ends, edges)[0]
    rates = counts / np.diff(edges) / steps_per_update
    middle = (np.cumsum(counts) - counts / 2) / steps_per_update
    return Line(name=run.name, x=middle.tolist(), y=rates.tolist(), colour=number)


def _epoch_ends(run: NamedRun, *, by_update: bool = False) -> tuple[float, ...]:
    """When each epoch of a run ended: in seconds of training, or in updates."""
    examples, per_update = examples_per_epoch(run.stored), run.result.examples_per_update
    if not examples or not per_update:
        return ()
    ends = [number * examples / per_update for number in range(1, int(run.result.updates * per_update / examples) + 1)]
    if not 1 <= len(ends) <= _MOST_EPOCHS:
        return ()
    return tuple(ends) if by_update else _times_of_updates(run, ends)


def _times_of_updates(run: NamedRun, updates: Sequence[float]) -> tuple[float, ...]:
    """The seconds of training after which each of these updates was made; after a restart, when it was made again."""
    is_step = (pl.col("kind") == "step") & ~pl.col("undone")
    columns = run.stored.scan_steps().filter(is_step).select("update", end=pl.col("t_s") + pl.col("duration_s"))
    steps = run.stored.collect(columns).sort("update")
    places = np.searchsorted(steps["update"].to_numpy(), updates)
    ends = steps["end"].to_numpy()
    return tuple(float(ends[place]) - training_start_s(run.stored) for place in places if place < len(ends))


def _group_bars(name: str, batches: Sequence[int], by_batch: Mapping[int, Group], read: Any, number: int) -> Bars:
    values, ranges = [], []
    for batch in batches:
        found = [float(read(result)) for result in by_batch[batch].ok] if batch in by_batch else []
        values.append(median(found) if found else None)
        ranges.append((min(found), max(found)) if found else None)
    return Bars(name=name, values=values, ranges=ranges, colour=number)
