"""How the processes of a run are started: frameworks are imported once, and no process outlives the others."""

import signal
import sys
from pathlib import Path

import psutil
import pytest

from paceline.engines.registry import engines
from paceline.forkserver.client import ForkServer
from paceline.hosts.agent_template import agent_template, keep_templates, prepare_template
from paceline.hosts.base import HostRequest, Preload
from support.fault_table import left_behind
from support.live_run import LiveRun, wait_for, wait_for_exit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork servers need Linux")


def startup_s(runs: Path, layout: str) -> float:
    """Seconds from the start of the command to the moment when all tasks are ready."""
    run = LiveRun(runs, "--strategy", "ps-async", "--layout", layout, "--stop", "steps=20")
    started_s = psutil.Process(run.process.pid).create_time() - psutil.boot_time()
    _, result = run.result()
    assert result["status"] == "ok", result["reason"]
    (go,) = run.events_named("go")
    return float(run.clock_zero_s + go["t_s"] - started_s)


@pytest.mark.slow
def test_eight_workers_start_in_less_than_three_times_the_time_of_one(tmp_path: Path) -> None:
    one, eight = startup_s(tmp_path / "one", "pw"), startup_s(tmp_path / "eight", "pw w w w w w w w")
    assert eight < 3 * one


def command(process: psutil.Process) -> str:
    return " ".join(process.cmdline()[2:])


def test_a_run_goes_on_without_its_template_and_ends_with_the_tasks_of_a_killed_fork_server(tmp_path: Path) -> None:
    options = ("--strategy", "ps-sync", "--layout", "pw w", "--stop", "seconds=600", "--set", "on_failure=fail")
    run = LiveRun(tmp_path / "runs", *options)
    run.wait_until_training()
    processes = run.process_tree()
    controller, template, *_ = processes
    worker = psutil.Process(run.pid_of("w1"))
    its_server = worker.parent()
    assert its_server
    agent = its_server.parent()
    assert agent
    assert command(worker).startswith("paceline.task --records")
    assert command(agent).startswith("paceline.agent --host h2")
    assert command(its_server).startswith(f"paceline.forkserver --of={agent.pid}")
    assert agent.parent() == template
    assert template.parent() == controller

    template.send_signal(signal.SIGKILL)
    wait_for_exit([template], deadline_s=5)
    steps = run._received_steps()
    wait_for(lambda: run._received_steps() > steps + 20, "training goes on")

    its_server.send_signal(signal.SIGKILL)
    code, result = run.result()
    assert (code, result["status"]) == (1, "failed")
    assert "w1" in result["reason"]
    assert [event["code"] for event in run.events_named("exited") if event["task"] == "w1"] == [-signal.SIGKILL]
    wait_for_exit(processes, deadline_s=5)
    assert left_behind(processes, run.directory) == []


def test_a_controller_killed_while_the_framework_is_imported_leaves_no_process(tmp_path: Path) -> None:
    run = LiveRun(tmp_path / "runs", "--layout", "single", "--stop", "steps=20")
    wait_for(lambda: len(run.process_tree()) > 1, "the template starts")
    processes = run.process_tree()
    run.process.kill()
    run.process.communicate()
    wait_for_exit(processes, deadline_s=5)


def pid_of(template: ForkServer | None) -> int:
    assert template
    assert template._process
    return template._process.pid


def test_templates_are_kept_for_the_next_run_with_the_same_modules() -> None:
    requests = [HostRequest(name="h1", preload=Preload(("json",)))]
    others = [HostRequest(name="h1", preload=Preload(("json",), {"COLOUR": "green"}))]
    with keep_templates():
        prepare_template(requests[0].preload)
        with agent_template(requests) as template:
            first = pid_of(template)
        with agent_template(others) as other:
            assert pid_of(other) != first
        with agent_template(requests) as again:
            assert pid_of(again) == first
        killed = psutil.Process(first)
        killed.kill()
        wait_for_exit([killed], deadline_s=5)
        with agent_template(requests) as after_kill:
            assert pid_of(after_kill) != first
        kept = [psutil.Process(pid_of(template)) for template in (other, after_kill)]
    assert not any(process.is_running() for process in kept)
    with agent_template(requests) as single:
        alone = psutil.Process(pid_of(single))
    assert not alone.is_running()


@pytest.mark.parametrize("engine", [name for name, engine in engines().items() if engine.preload and engine.installed])
def test_what_an_engine_preloads_leaves_no_thread_that_a_fork_would_lose(tmp_path: Path, engine: str) -> None:
    descriptor = engines()[engine]
    preload = Preload(descriptor.preload, descriptor.environment)
    with agent_template([HostRequest(name="h1", preload=preload)]) as template, (tmp_path / "log").open("wb") as log:
        assert template
        process = template.spawn([sys.executable, "-m", "json.tool"], stderr=log)
        process.stdin.write(b"[1]")
        process.stdin.close()
        assert process.stdout.read().split() == [b"[", b"1", b"]"]
        assert process.wait(10) == 0
