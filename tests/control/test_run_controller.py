"""The controller against hosts that play a script: no process is started."""

import errno
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analyze.load import load_result
from paceline.available import catalog
from paceline.control import liveness, watchdog
from paceline.control.events import End
from paceline.control.execute import execute
from paceline.control.interrupts import Interrupts, count_interrupts
from paceline.control.run_state import RunState
from paceline.data.dataset import PreparedData
from paceline.hosts.base import Condition, Host, HostRequest
from paceline.pipeline import header_of
from paceline.plan.place import RunPlan, place
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder, clock_ns
from paceline.spec.load import experiment
from paceline.spec.sweep import expand
from paceline.store.header import ResumePoint
from paceline.store.journal import Journal
from paceline.store.run import StoredRun
from paceline.store.writer import RunWriter
from support.fake_hosts import WAITING_STACKS, FakeHosts, FakeTask, TaskScript, finish, serve_until_halted

DATA = PreparedData(paths=(), source="none", synthetic=True)


@pytest.fixture
def plan() -> RunPlan:
    (spec,) = expand(experiment({"workload": "logreg", "strategy": "ps-sync", "layout": "pw w w"}))
    return place(spec, catalog())


@pytest.fixture
def writer(tmp_path: Path, plan: RunPlan) -> RunWriter:
    made = RunWriter(tmp_path / "runs", "test", plan)
    made.write_header(header_of(plan, DATA, ResumePoint(), clock_zero_ns=made.clock_zero_ns))
    return made


def play(plan: RunPlan, writer: RunWriter, **scripts: TaskScript) -> End:
    hosts = FakeHosts({"ps0": serve_until_halted, **scripts})
    return execute(plan, hosts, DATA, writer, lambda _moment: None, Interrupts())


def events(writer: RunWriter) -> list[dict[str, Any]]:
    return StoredRun(writer.paths).events


def test_a_run_goes_through_its_stages_and_is_stored(plan: RunPlan, writer: RunWriter) -> None:
    assert play(plan, writer) == End("ok")
    names = [event["event"] for event in events(writer)]
    assert names.count("joined") == 3
    assert names.count("started") == names.count("ready") == names.count("exited") == 4
    assert names.index("go") > max(i for i, name in enumerate(names) if name == "ready")
    assert names[-1] == "ended"
    writer.close()
    writer.release()
    assert load_result(writer.paths).status == "ok"


@pytest.mark.parametrize(("one_machine", "threads"), [(False, [16, 2]), (True, [8, 1])])
def test_threads_follow_from_the_cores_of_each_worker_s_own_host(
    tmp_path: Path, one_machine: bool, threads: list[int]
) -> None:
    """Whichever host joins last; on one machine all workers share its cores."""
    (spec,) = expand(experiment({"workload": "lenet", "strategy": "allreduce", "layout": "w w"}))
    plan = msgspec.structs.replace(place(spec, catalog()), shares_one_machine=one_machine)
    writer = RunWriter(tmp_path / "runs", "test", plan)
    execute(plan, FakeHosts(cores={"h1": 16, "h2": 2}), DATA, writer, lambda _moment: None, Interrupts())
    writer.close()
    writer.release()
    assigned = {event["task"]: event["threads"] for event in events(writer) if event["event"] == "assigned"}
    assert [assigned["w0"], assigned["w1"]] == threads


class HostsThatNeverCome(FakeHosts):
    """Hosts that are waited for, as for a node of a busy cluster."""

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
        yield []


def test_ctrl_c_ends_a_run_that_waits_for_its_hosts(plan: RunPlan, writer: RunWriter) -> None:
    with count_interrupts() as interrupts:
        end = execute(plan, HostsThatNeverCome(), DATA, writer, lambda _moment: None, interrupts)
    assert end == End("aborted", "interrupted before its hosts were there")
    writer.close()
    writer.release()
    assert load_result(writer.paths).status == "aborted"


def test_a_task_that_dies_fails_the_run_and_is_named(plan: RunPlan, writer: RunWriter) -> None:
    end = play(plan, writer, w1=lambda task: task.exit(-9), w0=serve_until_halted, w2=serve_until_halted)
    assert end == End("failed", "w1 on h2 was killed by SIGKILL")
    writer.close()
    writer.release()
    result = load_result(writer.paths)
    assert [incident.task for incident in result.incidents] == ["w1"]


def test_ctrl_c_before_the_agents_are_there_ends_at_once(plan: RunPlan, writer: RunWriter) -> None:
    interrupts = Interrupts()
    interrupts.count()
    start = time.monotonic()
    end = execute(plan, FakeHosts(), DATA, writer, lambda _moment: None, interrupts)
    assert end.status == "aborted"
    assert time.monotonic() - start < 4


def test_a_disk_that_is_full_ends_the_run_cleanly(
    plan: RunPlan, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write of the journal fails from the start, as it would without space."""

    def full(_journal: Journal, _entry: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Journal, "add", full)
    end = play(plan, writer, w0=serve_until_halted, w1=serve_until_halted, w2=serve_until_halted)
    assert end.status == "failed"
    assert "No space left" in (end.reason or "")
    writer.close()
    writer.release()
    assert load_result(writer.paths).status == "failed"


def test_what_finds_no_room_at_the_very_end_is_no_success(
    plan: RunPlan, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final parameters are the last and largest thing that a run writes."""

    def full(_writer: RunWriter, _task: str, _kind: str, _name: str, _data: bytes, *, last: bool) -> None:
        with writer.catch_disk_errors():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def leave_parameters(task: FakeTask) -> None:
        task.send_attached("checkpoint", "final.safetensors", b"all of them")
        finish(task)

    monkeypatch.setattr(RunWriter, "attach", full)
    end = play(plan, writer, w0=leave_parameters)
    assert end.status == "failed"
    assert "No space left" in (end.reason or "")


def test_the_log_of_a_task_has_a_largest_size(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.store.writer._MAX_LOG_BYTES", 10)
    for text in (b"12345678", b"abcdefgh", b"more"):
        writer.log("w0", text)
    assert re.fullmatch(rb"12345678ab\n\[.* not stored.\]\n", writer.paths.log("w0").read_bytes())


def test_a_run_whose_tasks_all_crash_ends(plan: RunPlan, writer: RunWriter) -> None:
    def crash(task: FakeTask) -> None:
        task.exit(3)

    end = play(plan, writer, w0=crash, w1=crash, w2=crash)
    assert end.status == "failed"
    assert re.fullmatch(r"w\d on h\d exited with code 3 before it had finished", end.reason or "")


def steps(folder: Path, count: int = 3) -> bytes:
    """Records of quick steps."""
    recorder = Recorder(folder / "records")
    for number in range(count):
        recorder.current.start_ns = clock_ns()
        recorder.end_step(clock_ns(), number + 1, 0.5)
    return RecordReader(folder / "records").new()


def test_an_agent_that_falls_silent_is_lost_and_named(
    plan: RunPlan, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "AGENT_TIMEOUT_S", 1.5)
    over = threading.Event()

    def freeze(_task: FakeTask) -> None:
        over.wait(30)

    def watch(moment: RunState) -> None:
        if moment.status:
            over.set()

    hosts = FakeHosts({"ps0": serve_until_halted, "w0": serve_until_halted, "w1": freeze, "w2": serve_until_halted})
    end = execute(plan, hosts, DATA, writer, watch, Interrupts())
    assert end == End("failed", "lost the agent of h2: no answer for 2 s")


def test_agents_are_not_lost_because_the_controller_was_held_up(
    plan: RunPlan, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "AGENT_TIMEOUT_S", 2.5)
    turns: list[float] = []
    done = threading.Event()

    def hold_up(moment: RunState) -> None:
        if moment.opened_ns and len(turns) < 2:
            time.sleep(3.0)  # the fault itself: longer than the patience, but each counts as one look of a second
            turns.append(moment.elapsed_s)
            if len(turns) == 2:
                done.set()

    def finish_later(task: FakeTask) -> None:
        def wait_and_finish() -> None:
            done.wait(30)
            finish(task)

        threading.Thread(target=wait_and_finish, daemon=True).start()

    workers = dict.fromkeys(("w0", "w1", "w2"), finish_later)
    end = execute(plan, FakeHosts({"ps0": serve_until_halted, **workers}), DATA, writer, hold_up, Interrupts())
    assert end == End("ok")
    assert len(turns) == 2


def test_a_run_without_progress_fails_after_all_stacks_were_written(
    plan: RunPlan, writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "MIN_STALL_S", 1.0)
    made = steps(tmp_path)
    reading = WAITING_STACKS.replace("engines/fake.py", "data/reader.py").replace("wait_for_others", "read")

    def step_then_stick(task: FakeTask) -> None:
        task.send_records(made)

    scripts = dict.fromkeys(("w0", "w1", "w2"), step_then_stick)
    hosts = FakeHosts({"ps0": serve_until_halted, **scripts}, stacks={"w1": reading})
    end = execute(plan, hosts, DATA, writer, lambda _moment: None, Interrupts())
    assert end.status == "failed"
    assert re.fullmatch(
        r"w1 on h2 is stuck: step 2, no progress for \d s, at paceline/data/reader.py:1 read "
        r"\(all tasks' stacks: logs/stacks.txt\)",
        end.reason or "",
    )
    told = writer.paths.stacks.read_text()
    assert all(f"==== {task} on " in told for task in ("ps0", "w0", "w1", "w2"))
    writer.close()
    writer.release()
    (incident,) = load_result(writer.paths).incidents
    assert (incident.task, incident.host) == ("w1", "h2")


def test_a_fault_is_caused_once_the_barrier_is_open_and_recorded(tmp_path: Path) -> None:
    texts = ["cut h2 for 0.001s at 0s", "kill w1 at 0.5s"]
    asked = {"workload": "logreg", "strategy": "ps-sync", "layout": "pw w w", "fault": texts, "hosts": "netns"}
    (spec,) = expand(experiment(asked))
    plan = msgspec.structs.replace(place(spec, catalog()), has_links=False)  # Scripted hosts have none to measure.
    writer = RunWriter(tmp_path / "runs", "test", plan)
    hosts = FakeHosts(
        {"ps0": serve_until_halted, "w0": serve_until_halted, "w1": serve_until_halted, "w2": serve_until_halted}
    )
    end = execute(plan, hosts, DATA, writer, lambda _moment: None, Interrupts())
    writer.close()
    writer.release()
    assert end == End("failed", "w1 on h2 was killed by SIGKILL")
    assert hosts.changes == [("h2", Condition(linked=False)), ("h2", Condition())]
    told = [event for event in events(writer) if event["event"] in ("go", "fault", "fault-over")]
    assert [(one["event"], one.get("what")) for one in told] == [
        ("go", None), ("fault", texts[0]), ("fault-over", texts[0]), ("fault", texts[1]),
    ]  # fmt: skip
    assert [(one["task"], one["host"]) for one in told[1:]] == [(None, "h2"), (None, "h2"), ("w1", "h2")]
