"""What each host's CPU, memory, network and disk did during the training."""

import polars as pl

from paceline.store.result import Disk, HostResult, Traffic

WINDOW_S = 0.5
"""A maximum is over windows of this length: shorter ones show the clock tick and the burst, not the load."""


def host_results(
    samples: pl.DataFrame,
    *,
    start_s: float,
    end_s: float,
    tasks: dict[str, list[str]],
    scopes: dict[str, dict[str, str]],
) -> list[HostResult]:
    return [
        _host(_between(samples.filter(pl.col("host") == host), start_s, end_s), host, mine, scopes.get(host, {}))
        for host, mine in tasks.items()
    ]


def other_cores(samples: pl.DataFrame, *, start_s: float, end_s: float) -> float:
    """Cores of the machine that all hosts share which were used by anything but their tasks, on average."""
    by_host = [_between(mine, start_s, end_s) for _, mine in samples.group_by("host")]
    if not by_host or len(by_host[0]) < 2:
        return 0.0
    busy = sum(_Rate(by_host[0], pl.col("cores_busy_s").list.get(i)).mean for i in range(_core_count(by_host[0])))
    return max(0.0, busy - sum(_Rate(mine, pl.col("cpu_s")).mean for mine in by_host))


def _between(samples: pl.DataFrame, start_s: float, end_s: float) -> pl.DataFrame:
    """Samples of the training; with fewer than two, those next to it."""
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
    )


def _traffic(samples: pl.DataFrame, side: str) -> Traffic:
    rx, tx = (_Rate(samples, pl.col(f"{side}_{way}_bytes")) for way in ("rx", "tx"))
    rx_packets, tx_packets = (_Rate(samples, pl.col(f"{side}_{way}_packets")) for way in ("rx", "tx"))
    return Traffic(
        rx_mb_s_mean=round(rx.mean / 1e6, 4),
        rx_mb_s_max=round(rx.max / 1e6, 4),
        tx_mb_s_mean=round(tx.mean / 1e6, 4),
        tx_mb_s_max=round(tx.max / 1e6, 4),
        rx_packets_s_mean=round(rx_packets.mean, 2),
        tx_packets_s_mean=round(tx_packets.mean, 2),
    )


class _Rate:
    """Growth of a counter: in all, per second on average, and per second in the fullest window."""

    def __init__(self, samples: pl.DataFrame, counter: pl.Expr) -> None:
        self.total = self.mean = self.max = 0.0
        if len(samples) < 2:
            return
        table = samples.select(t=pl.col("t_s"), value=counter.cast(pl.Float64))
        times, values = table["t"].to_numpy(), table["value"].to_numpy()
        self.total = float(values[-1] - values[0])
        self.mean = self.total / max(float(times[-1] - times[0]), 1e-9)
        # For each sample the first one at least a window later; a short run is one window.
        later = times.searchsorted(times + WINDOW_S * 0.999)
        whole = later < len(times)
        if whole.any():
            grown = values[later[whole]] - values[whole.nonzero()[0]]
            self.max = float((grown / (times[later[whole]] - times[whole])).max())
        self.max = max(self.max, self.mean)


def _core_count(samples: pl.DataFrame) -> int:
    return int(samples["cores_busy_s"].list.len().min() or 0) if len(samples) else 0  # type: ignore[arg-type]


def _max(samples: pl.DataFrame, column: str) -> float:
    return float(samples[column].max() or 0)  # type: ignore[arg-type]
