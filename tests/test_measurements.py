"""Measurements of hosts agree with what the operating system reports."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import psutil
import pytest

from paceline.hosts.netns.iproute import NAMESPACES
from paceline.store.result import Result
from support.live_run import LiveRun, wait_for


def counters(namespace: str) -> dict[str, int]:
    """The counters of the host's external interface, as `ip -s link` in its namespace reports them."""
    completed = subprocess.run(
        ["ip", "-n", namespace, "-s", "-j", "link", "show", "eth0"], capture_output=True, text=True, check=True
    )
    stats = json.loads(completed.stdout)[0]["stats64"]
    return {
        f"external_{direction}_{quantity}": stats[direction][quantity]
        for direction in ("rx", "tx")
        for quantity in ("bytes", "packets")
    }


def namespaces_of(run: LiveRun) -> dict[str, str]:
    """The network namespace of each host."""
    suffix = run.directory.name[-12:].strip("-")
    names = [entry.name for entry in Path(NAMESPACES).iterdir() if entry.name.startswith(f"pl-{suffix}")]
    return {name.rsplit("-", 1)[1]: name for name in names}


@pytest.mark.netns
@pytest.mark.parametrize("engine", ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_network_counters_agree_with_ip_link_statistics(tmp_path: Path, engine: str) -> None:
    run = LiveRun(
        tmp_path / "runs", "--engine", engine, "--strategy", "ps-async", "--layout", "p w w", "--hosts", "netns",
        "--stop", "seconds=12", "--name", f"net{engine[:2]}",
    )  # fmt: skip
    run.wait_until_training()
    names = namespaces_of(run)
    assert set(names) >= {"h1", "h2", "h3"}
    observed: dict[str, list[tuple[float, dict[str, int]]]] = {host: [] for host in ("h1", "h2", "h3")}
    # Counters between two samples are interpolated; over six seconds, the error of 0.1 s is small.
    wait_for(lambda: _read_counters(observed, names) >= 6, "6 s of counters are read", deadline_s=30)
    code, result = run.result()
    assert code == 0
    zero = next(e["clock_zero_ns"] for e in run.events() if e["event"] == "created")
    samples = pl.read_parquet(Path(result["dir"]) / "samples.parquet")
    for host, readings in observed.items():
        (start_ns, first), (end_ns, last) = readings[0], readings[-1]
        host_samples = samples.filter(pl.col("host") == host).sort("t_s")
        for counter in first:
            measured = _value_at(host_samples, counter, (end_ns - zero) / 1e9) - _value_at(
                host_samples, counter, (start_ns - zero) / 1e9
            )
            expected = last[counter] - first[counter]
            assert expected > 1000
            assert measured == pytest.approx(expected, rel=0.02), (host, counter)


def _read_counters(observed: dict[str, list[tuple[float, dict[str, int]]]], names: dict[str, str]) -> float:
    for host, readings in observed.items():
        before = time.monotonic_ns()
        values = counters(names[host])
        readings.append(((before + time.monotonic_ns()) / 2, values))
    readings = observed["h1"]
    return (readings[-1][0] - readings[0][0]) / 1e9


def _value_at(samples: pl.DataFrame, counter: str, t_s: float) -> float:
    """The counter at this time, interpolated between two samples."""
    times, values = samples["t_s"].to_numpy(), samples[counter].to_numpy()
    after = int(times.searchsorted(t_s))
    share = (t_s - times[after - 1]) / (times[after] - times[after - 1])
    return float(values[after - 1] + share * (values[after] - values[after - 1]))


@pytest.mark.netns
def test_link_rate_is_enforced_and_measured(run_one: Callable[..., Result]) -> None:
    """With a batch of 1 the server's link is the bottleneck: its rate must be close to the limit and never above."""
    limited = run_one(strategy="ps-async", layout="p w w", hosts="netns", link="100mbit", batch=1, stop="seconds=4")
    unlimited = run_one(strategy="ps-async", layout="p w w", hosts="netns", batch=1, stop="seconds=2")
    assert limited.status == unlimited.status == "ok"
    server = limited.hosts[0]
    assert 9 < server.external.tx_mb_s_mean <= server.external.tx_mb_s_max < 12.5
    assert all(host.external.rx_mb_s_max < 12.5 for host in limited.hosts)
    assert unlimited.hosts[0].external.tx_mb_s_mean > 1.2 * server.external.tx_mb_s_max
    assert server.scope["network"] == "the host's own interfaces"


@pytest.mark.netns
def test_cpu_limit_is_enforced_and_measured(run_one: Callable[..., Result]) -> None:
    limited = run_one(strategy="ps-async", layout="pw w", hosts="netns", cpus=0.25, stop="seconds=3")
    assert limited.status == "ok"
    for host in limited.hosts:
        assert host.cpu_cores_mean < 0.3
        assert host.cpu_cores_max < 0.35
    assert max(host.cpu_cores_mean for host in limited.hosts) > 0.15


def test_cpu_and_memory_agree_with_psutil(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--strategy", "single", "--stop", "seconds=12")
    run.wait_until_training()
    task = psutil.Process(run.pid_of("w0"))
    first, start = task.cpu_times(), time.monotonic_ns()
    wait_for(lambda: time.monotonic_ns() - start > 2.5e9, "2.5 s pass")
    last, end, memory = task.cpu_times(), time.monotonic_ns(), task.memory_info().rss
    _, result = run.result()
    zero = next(e["clock_zero_ns"] for e in run.events() if e["event"] == "created")
    samples = pl.read_parquet(Path(result["dir"]) / "samples.parquet").sort("t_s")
    measured = _value_at(samples, "cpu_s", (end - zero) / 1e9) - _value_at(samples, "cpu_s", (start - zero) / 1e9)
    expected = last.user + last.system - first.user - first.system
    assert measured == pytest.approx(expected, rel=0.05, abs=0.05)
    assert _value_at(samples, "memory_bytes", (end - zero) / 1e9) == pytest.approx(memory, rel=0.05)
    assert result["hosts"][0]["scope"]["network"].startswith("the machine's")


def test_throughput_agrees_with_the_step_records(run_one: Callable[..., Result]) -> None:
    """updates/s is the number of updates over the time from the barrier to the last step, from the step records."""
    result = run_one(strategy="ps-async", layout="pw w", stop="steps=600")
    steps = pl.read_parquet(Path(result.dir) / "steps.parquet").filter(pl.col("kind") == "step")
    end = (steps["t_s"] + steps["duration_s"]).max()
    start = steps["t_s"].min()
    assert isinstance(end, float)
    assert isinstance(start, float)
    assert result.updates_per_s == pytest.approx(600 / (end - start), rel=0.05)
    assert result.examples_per_s == pytest.approx(result.updates_per_s * 100, rel=1e-3)
    assert result.first_step_s is not None
    assert result.first_step_s < result.total_s
    assert result.train_s < result.total_s
