"""The live view rendered from made-up states, for terminals of many sizes."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.available import catalog
from paceline.control.run_state import CurrentBottleneck, RunState, WaitingFor
from paceline.messages import HostSample, LinkCount
from paceline.messages.agent import TaskSample
from paceline.plan.place import place
from paceline.present.colours import FAULT_COLOUR
from paceline.recording.layout import STEP, STEP_PHASES, RecordKind
from paceline.recording.rows import RECORD_DTYPE
from paceline.spec.fault import Fault
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.terminal.live import plain_line
from paceline.terminal.live_view import view_lines
from paceline.terminal.sweep_pace import SweepPace

CATALOG = catalog()
_COMPUTE = STEP_PHASES.index(RecordKind.COMPUTE)
FREEZE = Fault.parse("freeze w1 for 3s at 2s")


class Clock:
    """The time of a made-up run."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> int:
        return round(self.now_s * 1e9)


def layout(workers: int, hosts: int, servers: int) -> str:
    words = ["p" * servers, *[""] * (hosts - 1)]
    for worker in range(workers):
        words[worker % hosts] += "w"
    return " ".join(word for word in words if word)


def started(workers: int = 2, hosts: int = 2, servers: int = 1, **fields: Any) -> tuple[RunState, Clock]:
    """A run that has just begun to train."""
    given = {"workload": "logreg", "strategy": "ps-async", "stop": ["steps=20000"], **fields}
    (spec,) = expand(experiment({**given, "layout": layout(workers, hosts, servers)}))
    clock = Clock()
    state = RunState("logreg-1", place(spec, CATALOG), clock)
    clock.now_s = 5.0
    state.open()
    return state, clock


def train(
    state: RunState,
    clock: Clock,
    seconds: int,
    tasks: Iterable[str] = (),
    steps_per_s: int = 100,
    loss_now: float = 0.25,
) -> None:
    """Each of the tasks (all if none is given) makes steps, of which a shipment arrives every second."""
    for _ in range(seconds):
        clock.now_s += 1.0
        for task in tasks or state.workers:
            records = np.zeros(steps_per_s, RECORD_DTYPE)
            ends = clock.now_s - 1 + np.arange(1, steps_per_s + 1) / steps_per_s
            records["kind"], records["staleness"], records["loss"] = STEP, -1, loss_now
            records["start_ns"], records["end_ns"] = 1e9 * (ends - 1 / steps_per_s), 1e9 * ends
            middle_ns = records["start_ns"] + np.uint64(1e9 / steps_per_s / 5)
            records["data_end_ns"] = middle_ns
            records["phases"][:, _COMPUTE, 0], records["phases"][:, _COMPUTE, 1] = middle_ns, records["end_ns"]
            records["update"] = state.update + np.arange(1, steps_per_s + 1)
            state.add_records(task, records)
        for host in state.hosts:
            state.add_samples(host, [sample(state, host, clock.now_s)])
        state.tick()


def sample(state: RunState, host: str, now_s: float) -> HostSample:
    tasks = [
        TaskSample(task, now_s * 0.5, 120_000_000, 4) for task in state.servers if state.servers[task].host == host
    ]
    link = LinkCount(rx_bytes=round(now_s * 5e6), tx_bytes=round(now_s * 5e6))
    return HostSample(round(now_s * 1e9), now_s * 0.75, [], 987_000_000, link, link, 0, 0, tasks)


def shown(state: RunState, width: int = 80, height: int = 24, run: int = 1, runs: int = 1) -> list[str]:
    return [line.plain for line in view_lines(state, run, runs, width, height)]


@given(
    workers=st.integers(1, 100),
    hosts=st.integers(1, 64),
    servers=st.integers(1, 8),
    width=st.integers(20, 200),
    height=st.integers(8, 60),
    incidents=st.lists(st.text(max_size=200), max_size=6),
)
@example(workers=32, hosts=32, servers=1, width=80, height=24, incidents=["w1 on h2 was killed by SIGKILL"] * 9)
@example(workers=2, hosts=2, servers=1, width=160, height=50, incidents=[])
def test_the_view_fits_a_terminal_of_any_size_and_shows_every_group(
    workers: int, hosts: int, servers: int, width: int, height: int, incidents: list[str]
) -> None:
    state, clock = started(workers, min(workers, hosts), servers)
    train(state, clock, 3)
    clock.now_s += 7
    for incident in incidents:
        state.add_incident(incident)
    lines = view_lines(state, 3, 12, width, height)
    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width
    text = "\n".join(line.plain for line in lines)
    for group in ("worker", "host", "server"):
        assert any(line.startswith(group) for line in text.splitlines()), text


@given(
    width=st.integers(60, 200),
    height=st.integers(20, 60),
    workers=st.integers(1, 64),
    frozen=st.integers(0, 63),
    synchronous=st.booleans(),
)
@example(width=60, height=20, workers=64, frozen=63, synchronous=False)
@example(width=80, height=24, workers=32, frozen=31, synchronous=True)
def test_a_frozen_worker_is_named_in_a_terminal_of_any_size(
    width: int, height: int, workers: int, frozen: int, synchronous: bool
) -> None:
    strategy = "ps-sync" if synchronous else "ps-async"
    state, clock = started(workers, workers, 1, strategy=strategy)
    state.bottleneck = CurrentBottleneck("network", "h1", 0.7, 3.0)
    train(state, clock, 3)
    stuck = f"w{frozen % workers}"
    train(state, clock, 6, tasks=[task for task in state.workers if task != stuck] or ["none"])
    lines = view_lines(state, 1, 3, width, height - 1, sweep_left_s=4000.0)
    text = "\n".join(line.plain for line in lines)
    assert len(lines) <= height - 1
    assert max(line.cell_len for line in lines) <= width
    assert re.search(rf"^{stuck} .* no step for 6 s|^  {stuck}: no step for 6 s", text, re.MULTILINE), text
    assert re.search(r"^bottleneck now: ", text, re.MULTILINE)
    assert re.search(r"^updates/s [▁▂▃▄▅▆▇█_]+ highest .* {3}loss [▁▂▃▄▅▆▇█]+ now 0.2500$|^loss ", text, re.MULTILINE)
    assert "■" in text
    for group in ("worker", "host", "server"):
        assert re.search(f"^{group}", text, re.MULTILINE), text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50)])
def test_the_slowest_and_the_fastest_of_many_workers_are_named(width: int, height: int) -> None:
    state, clock = started(64, 32, 1)
    for index, task in enumerate(state.workers):
        clock.now_s = 5.0
        train(state, clock, 3, tasks=[task], steps_per_s=10 + index)
    text = "\n".join(shown(state, width, height - 1))
    assert "workers: steps/s · slowest w0 10.0 · fastest w63 73.0" in text
    if height == 50:
        assert re.search("^slowest w0 10.0 +█+ compute 80 %", text, re.MULTILINE), text


def test_if_there_is_no_room_for_all_workers_the_slowest_are_kept_and_the_others_counted() -> None:
    state, clock = started(64, 2, 1)
    for index, task in enumerate(state.workers):
        clock.now_s = 5.0
        train(state, clock, 3, tasks=[task], steps_per_s=100 - index)
    lines = shown(state, 60, 16)
    cells = " ".join(lines[lines.index(next(line for line in lines if line.startswith("workers:"))) + 1 :])
    hidden = int(re.search(r"\+(\d+) more", cells).group(1))  # type: ignore[union-attr]
    kept = re.findall(r"\bw\d+", cells)
    assert len(kept) == 64 - hidden > 4
    assert kept == [f"w{index}" for index in range(64 - len(kept), 64)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50)])
@pytest.mark.parametrize("workers", [2, 12, 32])
def test_every_worker_and_every_host_is_shown(workers: int, width: int, height: int) -> None:
    state, clock = started(workers, workers, 1)
    train(state, clock, 3)
    state.add_fault(FREEZE)
    lines = shown(state, width, height - 1)
    for name in (*state.workers, *state.hosts, *state.servers):
        assert any(name in line.split() for line in lines), "\n".join(lines)


def test_a_worker_that_stops_has_a_rate_that_falls_to_0_and_says_for_how_long() -> None:
    state, clock = started()
    train(state, clock, 4)
    assert state.steps_per_s("w1") == pytest.approx(100)
    rates = []
    for _ in range(7):
        train(state, clock, 1, tasks=["w0"])
        rates.append(state.steps_per_s("w1"))
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0 < rates[1]
    assert any(line.startswith("w1 ") and " 0 " in line and "no step for 7 s" in line for line in shown(state))
    assert state.steps_per_s("w0") == pytest.approx(100)
    assert state.updates_per_s == pytest.approx(100)
    train(state, clock, 4)
    assert "no step" not in "\n".join(shown(state))


def test_a_worker_with_long_steps_is_not_taken_for_one_that_stopped() -> None:
    state, clock = started()
    clock.now_s += 30
    records = np.zeros(1, RECORD_DTYPE)
    records["kind"], records["start_ns"], records["end_ns"] = STEP, 5e9, 35e9
    state.add_records("w0", records)
    clock.now_s += 20
    assert state.steps_per_s("w0") == pytest.approx(1 / 30, rel=0.6)
    assert state.stalled_s("w0") is None
    assert state.stalled_s("w1") == pytest.approx(50)


def test_faults_and_incidents_say_what_and_when() -> None:
    state, clock = started()
    train(state, clock, 2)
    state.add_fault(FREEZE)
    train(state, clock, 3, tasks=["w0"])
    lines = shown(state, width=120)
    assert "2.0 s  fault: freeze w1 for 3s at 2s" in lines
    assert any(line.startswith("w1 ") and "fault: freeze" in line for line in lines)
    state.end_fault(FREEZE)
    state.add_incident("w1 on h2 was killed by SIGKILL", "w1")
    lines = shown(state)
    assert "2.0–5.0 s  fault: freeze w1 for 3s at 2s" in lines
    assert "5.0 s  incident: w1 on h2 was killed by SIGKILL" in lines
    assert not any(line.startswith("w1 ") and "fault" in line for line in lines)


def test_why_a_worker_makes_no_steps_is_shown_instead_of_its_phases() -> None:
    state, clock = started()
    train(state, clock, 2)
    state.busy("w0", "eval")
    state.restarting(["w1"])
    assert any(line.startswith("w0 ") and "compute 80 %" in line for line in shown(state))
    clock.now_s += 7
    lines = shown(state)
    assert any(line.startswith("w0 ") and line.endswith("no step for 7 s: evaluating") for line in lines)
    assert any(line.startswith("w1 ") and line.endswith("restarting") for line in lines)
    state.busy("w0", None)
    state.begin(["w1"])
    state.finished("w0")
    state.busy("w0", None)
    state.exited("w0")
    lines = shown(state)
    assert any(line.startswith("w0 ") and line.endswith("finished") for line in lines)
    assert any(line.startswith("w1 ") and "compute 80 %" in line for line in lines)


def test_a_start_says_which_tasks_are_not_ready() -> None:
    state, _ = started()
    state.stage, state.opened_ns = "starting", None
    state.waiting_for = WaitingFor("the tasks to connect and compile", ("w0 on h1", "w1 on h2"))
    assert "waiting for the tasks to connect and compile (2): w0 on h1, w1 on h2" in shown(state)
    state.waiting_for = WaitingFor("the tasks to start", tuple(f"w{index} on h1" for index in range(32)))
    assert any(line.startswith("waiting for the tasks to start (32): w0 on h1,") for line in shown(state))
    assert "w5 on h1 and 26 more" in "\n".join(shown(state, width=160))


def test_progress_time_left_sweep_phases_and_throughput_are_shown() -> None:
    state, clock = started()
    train(state, clock, 10)
    text = "\n".join(shown(state, run=3, runs=12))
    assert text.startswith("run 3 of 12 · logreg · torch · ps-async")
    assert "10 % · 10.0 s · about 90 s left" in text
    assert "update 2,000 of 20,000 · 200/s" in text
    assert "updates/s ██████████ highest 200" in text
    assert "■ data 20 %  ■ pull 0 %  ■ compute 80 %  ■ push 0 %" in text
    train(state, clock, 6, tasks=["w1"])
    clock.now_s += 10
    state.tick()
    spark = next(line for line in shown(state) if line.startswith("updates/s")).split()[1]
    assert spark.startswith("██████████")
    assert spark.endswith("▅▅_")


def test_the_seconds_of_a_fault_are_coloured_in_the_sparklines() -> None:
    state, clock = started()
    train(state, clock, 4)
    state.add_fault(FREEZE)
    train(state, clock, 3)
    state.end_fault(FREEZE)
    train(state, clock, 4)
    (line,) = (line for line in view_lines(state, 1, 1, 80, 23) if line.plain.startswith("updates/s"))
    first = line.plain.index("█")
    styles = {span.start - first: str(span.style) for span in line.spans if span.end == span.start + 1}
    coloured = [second for second in range(11) if styles.get(second) == FAULT_COLOUR]
    assert coloured == [4, 5, 6]


def test_the_loss_has_a_sparkline() -> None:
    state, clock = started()
    for loss_now in (0.9, 0.7, 0.5, 0.3):
        train(state, clock, 1, loss_now=loss_now)
    assert any("loss █▆▃▁ now 0.3000" in line for line in shown(state))
    assert "loss █▆▃▁ now 0.3000" in shown(state, 160, 50)
    unknown, clock = started()
    train(unknown, clock, 3, loss_now=float("nan"))
    assert not any("now" in line for line in shown(unknown))


def test_the_time_left_for_all_runs_of_a_sweep_is_estimated_from_the_runs_before() -> None:
    state, clock = started()
    pace = SweepPace(lambda: clock.now_s)
    train(state, clock, 10)
    # The first run is 15 s old and needs 90 s more; so will the two others.
    assert pace.left_s(state, 2) == pytest.approx(90 + 2 * 105, rel=0.01)
    with pace.measure():
        clock.now_s += 120
    state, clock = started()
    train(state, clock, 10)
    assert pace.left_s(state, 1) == pytest.approx(90 + 120, rel=0.01)
    lines = [line.plain for line in view_lines(state, 2, 3, 80, 23, pace.left_s(state, 1))]
    assert lines[0] == "run 2 of 3 · all done in about 3 min 30 s · logreg · torch · ps-async · batch 1…"
    endless, clock = started(stop=["loss=0.1"])
    train(endless, clock, 3)
    assert SweepPace().left_s(endless, 3) is None


def test_hosts_are_shown_with_fewer_numbers_before_one_is_left_out() -> None:
    state, clock = started(32, 32, 1)
    train(state, clock, 3)
    roomy, tight = "\n".join(shown(state, 80, 24)), "\n".join(shown(state, 80, 19))
    assert "hosts: cores used, memory (MB)\nh1 0.75 987" in roomy
    assert "hosts: cores used\nh1 0.75  " in tight
    assert "h32 0.75" in tight


def test_a_server_with_a_fault_is_marked() -> None:
    state, clock = started()
    train(state, clock, 2)
    state.add_fault(Fault.parse("freeze ps0 for 3s at 2s"))
    assert any(line.startswith("ps0 ") and line.endswith("fault: freeze") for line in shown(state))


def test_without_an_end_that_can_be_estimated_no_time_left_is_shown() -> None:
    state, clock = started(stop=["loss=0.2"])
    train(state, clock, 3)
    assert " left" not in "\n".join(shown(state))
    state, clock = started(stop=["loss=0.2", "seconds=60"])
    train(state, clock, 3)
    assert "at most 57 s left" in "\n".join(shown(state))


def test_a_plain_line_has_the_same_facts() -> None:
    state, clock = started()
    train(state, clock, 4)
    train(state, clock, 5, tasks=["w0"])
    line = plain_line(state)
    assert line.startswith("update 1,300 of 20,000 · 100/s · 9.0 s · about ")
    assert line.endswith(" left · w0 100/s w1 0/s · w1: no step for 5 s")
    state, clock = started(workers=32, hosts=4)
    train(state, clock, 2)
    assert "32 workers, 100 to 100 steps/s each" in plain_line(state)


def test_a_host_without_samples_is_named() -> None:
    state, clock = started()
    train(state, clock, 2)
    clock.now_s += 8
    assert any(line.startswith("h2 ") and line.endswith("no sample for 8 s") for line in shown(state, width=100))
