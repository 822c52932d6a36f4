"""Machines that are reached by ssh: what ssh costs a run, many hosts on one controller, and how fast files are sent.

The machines are those of the tests: namespaces on this machine, each with its own network, files and sshd. Root only.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
from rich.table import Table

from bench.measure import Case, console, measure, paceline_case, print_table, ratio

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from paceline import messages, pipeline
from paceline.control.cluster import AgentClosed
from paceline.control.cluster import Cluster as Agents
from paceline.control.file_sender import FileSender
from paceline.control.ingest import Ingest
from paceline.control.run_state import RunState
from paceline.files.reference import reference
from paceline.hosts import agent_template
from paceline.hosts.base import Host, HostRequest
from paceline.hosts.registry import host_provider
from paceline.spec.load import experiment
from paceline.store.writer import RunWriter
from support.machines import Cluster, make_machines, reason_without_machines
from support.ssh_runs import inventory

_TRAIN: dict[str, Any] = {
    "engine": "torch",
    "strategy": "ps-async",
    "layout": "pw w w",
    "stop": "seconds=5",
    "threads": 1,
}
"""With one thread for each worker: the machines of ssh do not know that they share their cores."""
_FILE_BYTES = 200_000_000
_HOSTS = 32
_SAMPLE_S = 20.0
_ANSWER_S = 120.0


def ssh(rounds: int) -> None:
    """Throughput of ps-async over ssh beside netns hosts, which have the same network without ssh, in turns.

    On netns hosts, the tasks of all hosts are usually forked from one process and share its memory, which no tasks on
    different machines can. What ssh costs shows beside netns hosts whose tasks are new programs as well.
    """
    if _is_impossible("ssh"):
        return
    with make_machines(3) as machines:
        cases: dict[str, Case] = {
            "ssh": paceline_case("logreg", hosts=inventory(machines), **_TRAIN),
            "netns": paceline_case("logreg", hosts="netns", **_TRAIN),
            "netns, not forked": _not_forked(paceline_case("logreg", hosts="netns", **_TRAIN)),
        }
        measurements = measure(cases, rounds)
    ratios = {
        "ssh / netns, not forked": (ratio(measurements, "ssh", "netns, not forked"), "expected: at least 0.95"),
        "ssh / netns": (ratio(measurements, "ssh", "netns"), ""),
    }
    print_table("Updates/s of ps-async on torch, three hosts, logreg, batch 100", measurements, ratios)


def _not_forked(case: Case) -> Case:
    """The case with agents and tasks that are new programs, as on a system without fork servers."""

    def measured() -> float:
        with patch.object(agent_template, "supported", lambda: False):
            return case()

    return measured


def many_hosts(rounds: int) -> None:
    """One controller with 32 hosts by ssh whose agents only sample."""
    if _is_impossible("hosts"):
        return
    table = Table(
        "hosts", "start (s)", "controller CPU (cores)", "controller memory (MB)", "samples/s",
        title="Agents that only sample, 10 times a second, by ssh", title_justify="left", box=None,
    )  # fmt: skip
    with make_machines(_HOSTS) as machines:
        for count in (3, _HOSTS):
            for _ in range(rounds):
                table.add_row(*_sampling(inventory(machines, count=_HOSTS), count))
    console.print(table)


def _sampling(hosts: str, count: int) -> list[str]:
    layout = " ".join(["pw", *["w"] * (count - 1)])
    fields = {"workload": "logreg", "strategy": "ps-async", "layout": layout, "stop": ["steps=1000000"], "hosts": hosts}
    (plan,) = pipeline.plan(experiment(fields))
    began_s, process = time.monotonic(), psutil.Process()
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs, _opened(hosts, count) as opened:
        writer = RunWriter(Path(runs), "sampling", plan)
        ingest = Ingest(writer, RunState(writer.paths.id, plan))
        agents = Agents(opened, writer.paths.logs, None, messages.Setup("", 10.0, 20.0))
        try:
            _wait_for_hellos(agents, count)
            for host in opened:
                assert agents.measure_clock(host.name)
            start_s, begin_s, cpu_s, samples = time.monotonic() - began_s, time.monotonic(), time.process_time(), 0
            ping_s = begin_s
            while (now_s := time.monotonic()) < begin_s + _SAMPLE_S:
                if now_s >= ping_s:
                    agents.ping()
                    ping_s = now_s + 1.0
                received = agents.next(timeout_s=0.1)
                if received and isinstance(message := getattr(received, "message", None), messages.Samples):
                    ingest.samples(received.host, message)
                    samples += len(message.samples)
            cores = (time.process_time() - cpu_s) / (time.monotonic() - begin_s)
            memory_mb = process.memory_info().rss / 1e6
        finally:
            agents.close()
            ingest.close()
            writer.release()
    row = [str(count), f"{start_s:.1f}", f"{cores:.3f}", f"{memory_mb:,.0f}", f"{samples / _SAMPLE_S:,.0f}"]
    console.print(f"  {row}", style="dim")
    return row


def files(rounds: int) -> None:
    """How fast a file of 200 MB gets to a machine: through the agent's pipe, as in a run, and by scp and sftp."""
    if _is_impossible("files"):
        return
    with make_machines(1) as machines, tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        path = Path(folder) / "data.bin"
        path.write_bytes(os.urandom(_FILE_BYTES))
        cases: dict[str, Case] = {
            "through the agent": lambda: _send_by_agent(machines, path, Path(folder)),
            "scp": lambda: _copy(machines, ["scp", "-q", str(path), "node1:copy.bin"]),
            "sftp": lambda: _copy(machines, ["sftp", "-q", "-b", "-", "node1"], f"put {path} copy.bin\n"),
            "ssh cat": lambda: _copy(machines, ["sh", "-c", f"ssh node1 'cat > copy.bin' < {path}"]),
        }
        measurements = measure(cases, rounds)
    ratios = {"agent / scp": (ratio(measurements, "through the agent", "scp"), "expected: at least 0.5")}
    print_table("A file of 200 MB to a machine by ssh", measurements, ratios, unit="MB/s")


def _send_by_agent(machines: Cluster, path: Path, folder: Path) -> float:
    file = reference(path)
    with _opened(inventory(machines, count=1), 1) as opened:
        agents = Agents(opened, folder, None, messages.Setup("", 0.0, 60.0))
        try:
            _wait_for_hellos(agents, 1)
            began_s = time.monotonic()  # The agent of a run is there anyway.
            sender = FileSender(agents)
            sender.ensure("h1", [file], keep=False)
            # Messages to tasks wait for files. This task does not exist, so the agent ends when the file is there.
            agents.send("h1", messages.SendToTask("none", messages.Halt()))
            while (received := agents.next(_ANSWER_S)) and not isinstance(received, AgentClosed):
                if isinstance(message := getattr(received, "message", None), messages.NeedFiles):
                    sender.requested("h1", message.sha256)
            return _FILE_BYTES / 1e6 / (time.monotonic() - began_s)
        finally:
            agents.close()


def _copy(machines: Cluster, command: Sequence[str], text: str = "") -> float:
    began_s = time.monotonic()
    subprocess.run(command, input=text, text=True, check=True, env=machines.environment(), stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - began_s
    machines.ssh("node1", "rm", "copy.bin")
    return _FILE_BYTES / 1e6 / seconds


def _is_impossible(part: str) -> bool:
    """Whether there can be no test machines here; prints why."""
    reason = reason_without_machines()
    if reason:
        console.print(f"{part}: not measured, {reason}")
    return reason is not None


@contextmanager
def _opened(hosts: str, count: int) -> Iterator[Sequence[Host]]:
    provider = host_provider(hosts)
    with provider.open("bench", [HostRequest(name=f"h{number}") for number in range(1, count + 1)]) as opened:
        yield opened


def _wait_for_hellos(agents: Agents, count: int) -> None:
    joined: set[str] = set()
    while len(joined) < count:
        received = agents.next(timeout_s=_ANSWER_S)
        assert received is not None, f"no answer of {count - len(joined)} agents"
        assert isinstance(getattr(received, "message", None), messages.Hello | messages.Samples), received
        joined.add(received.host)
