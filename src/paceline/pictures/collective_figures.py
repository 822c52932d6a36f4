"""The picture of `paceline bench-collectives`: latency and bandwidth by size, as plain data."""

from collections.abc import Sequence

from paceline.pictures.figure import Figure, Line, Panel
from paceline.train.collectives import Measurement


def collective_figure(measurements: Sequence[Measurement], title: str) -> Figure:
    """Both axes are logarithmic; one line per operation and number of workers."""
    series: dict[tuple[str, int], list[Measurement]] = {}
    for one in measurements:
        series.setdefault((one.operation, one.workers), []).append(one)

    def panel(name: str, y_label: str, value: str, scale: float) -> Panel:
        lines = [
            Line(
                name=f"{operation}, {workers} workers",
                x=[one.bytes for one in points],
                y=[getattr(one, value) * scale for one in points],
                colour=number,
                markers=True,
            )
            for number, ((operation, workers), points) in enumerate(series.items())
        ]
        return Panel(title=name, x_label="size (bytes)", y_label=y_label, lines=lines, log_x=True, log_y=True)

    return Figure(
        name="collectives",
        title=title,
        panels=[
            panel("latency", "ms", "latency_s", 1e3),
            panel("bandwidth of the busiest link", "MB/s", "link_mb_s", 1.0),
        ],
    )
