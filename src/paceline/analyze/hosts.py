"""CPU, memory, network and disk use of each host during training."""

import polars as pl

from paceline.store.result import Disk, HostResult, Traffic

WINDOW_S = 0.5
"""Length of the windows that maxima are taken over. Shorter windows would show clock ticks and bursts, not load."""


def host_results(
    samples: pl.DataFrame,
    *,
    start_s: float,
    end_s: float,
    tasks: dict[str, list[str]],
    scopes: dict[str, dict[str, str]],
) -> list[HostResult]:
    return [
        _host(_between(samples.filter(pl.col("host") == host), start_s, end_s), host, host_tasks, scopes.get(host, {}))
        for host, host_tasks in tasks.items()
    ]


def background_cores(samples: pl.DataFrame, *, start_s: float, end_s: float, shared: bool) -> dict[str, float]:
    """By host, the average number of cores of its machine that other programs used.

    `shared`: all hosts are on one machine, so that the number is the same for all of them.
    """
    grouped = samples.sort("host", "t_s").group_by("host", maintain_order=True)
    by_host = {str(host): _between(host_samples, start_s, end_s) for (host,), host_samples in grouped}
    tasks = {host: _Rate(host_samples, pl.col("cpu_s")).mean for host, host_samples in by_host.items()}
    if not shared:
        return {host: max(0.0, _busy_cores(host_samples) - tasks[host]) for host, host_samples in by_host.items()}
    # The load of the machine is read from one host's samples: always the first, so that the result is reproducible.
    first = next(iter(by_host.values()), samples)
    others = max(0.0, _busy_cores(first) - sum(tasks.values())) if len(first) >= 2 else 0.0
    return dict.fromkeys(by_host, others)


def _busy_cores(samples: pl.DataFrame) -> float:
    """Average number of cores of the machine that were busy, whatever they ran."""
    cores = range(_core_count(samples))
    return sum(_Rate(samples, pl.col("cores_busy_s").list.get(core)).mean for core in cores)


def _between(samples: pl.DataFrame, start_s: float, end_s: float) -> pl.DataFrame:
    """Samples taken during training; if there are fewer than two, also the one before and the one after it."""
    samples = samples.sort("t_s")
    inside = samples.filter(pl.col("t_s").is_between(start_s, end_s))
    if len(inside) >= 2:
        return inside
    before, after = samples.filter(pl.col("t_s") < start_s).tail(1), samples.filter(pl.col("t_s") > end_s).head(1)
    return pl.concat([before, inside, after])


def _host(samples: pl.DataFrame, host: str, tasks: list[str], scope: dict[str, str]) -> HostResult:
    cores = [_Rate(samples, pl.col("cores_busy_s").list.get(core)) for core in range(_core_count(samples))]
    cpu = _Rate(samples, pl.col("cpu_s"))
    return HostResult(
        host=host,
        tasks=tasks,
        cpu_cores_mean=round(cpu.mean, 4),
        cpu_cores_max=round(cpu.max, 4),
        busiest_core_max=round(min(1.0, max((core.max for core in cores), default=0.0)), 4),
        memory_mb_max=round(_max(samples, "memory_bytes") / 1e6, 3),
        external=_traffic(samples, "external"),
        loopback=_traffic(samples, "loopback"),
        disk=Disk(
            read_mb=round(_Rate(samples, pl.col("disk_read_bytes")).total / 1e6, 3),
            write_mb=round(_Rate(samples, pl.col("disk_write_bytes")).total / 1e6, 3),
        ),
        scope=scope,
        memory_mb_mean=_scaled(samples["memory_bytes"].mean(), 1e6) or 0.0,
        memory_free_mb_mean=_scaled(samples["memory_free_bytes"].mean(), 1e6),
        memory_free_mb_min=_scaled(samples["memory_free_bytes"].min(), 1e6),
        load_average_mean=_scaled(samples["load_average"].mean()),
        load_average_max=_scaled(samples["load_average"].max()),
    )


def _traffic(samples: pl.DataFrame, interface: str) -> Traffic:
    rx, tx = (_Rate(samples, pl.col(f"{interface}_{direction}_bytes")) for direction in ("rx", "tx"))
    rx_packets, tx_packets = (_Rate(samples, pl.col(f"{interface}_{direction}_packets")) for direction in ("rx", "tx"))
    return Traffic(
        rx_mb_s_mean=round(rx.mean / 1e6, 4),
        rx_mb_s_max=round(rx.max / 1e6, 4),
        tx_mb_s_mean=round(tx.mean / 1e6, 4),
        tx_mb_s_max=round(tx.max / 1e6, 4),
        rx_packets_s_mean=round(rx_packets.mean, 2),
        tx_packets_s_mean=round(tx_packets.mean, 2),
        rx_packets_s_max=round(rx_packets.max, 2),
        tx_packets_s_max=round(tx_packets.max, 2),
    )


class _Rate:
    """Growth of a counter: in total, per second on average, and per second in the window with the most growth."""

    def __init__(self, samples: pl.DataFrame, counter: pl.Expr) -> None:
        self.total = self.mean = self.max = 0.0
        if len(samples) < 2:
            return
        table = samples.select(t=pl.col("t_s"), value=counter.cast(pl.Float64))
        times, values = table["t"].to_numpy(), table["value"].to_numpy()
        self.total = float(values[-1] - values[0])
        self.mean = self.total / max(float(times[-1] - times[0]), 1e-9)
        # For each sample the first one at least a window later; a short run is one window.
        window_end = times.searchsorted(times + WINDOW_S * 0.999)
        complete = window_end < len(times)
        if complete.any():
            growth = values[window_end[complete]] - values[complete.nonzero()[0]]
            self.max = float((growth / (times[window_end[complete]] - times[complete])).max())
        self.max = max(self.max, self.mean)


def _core_count(samples: pl.DataFrame) -> int:
    return int(samples["cores_busy_s"].list.len().min() or 0) if len(samples) else 0  # type: ignore[arg-type]


def _scaled(value: object, unit: float = 1.0) -> float | None:
    """None if no sample has the value."""
    return round(float(value) / unit, 3) if isinstance(value, int | float) else None


def _max(samples: pl.DataFrame, column: str) -> float:
    return float(samples[column].max() or 0)  # type: ignore[arg-type]
