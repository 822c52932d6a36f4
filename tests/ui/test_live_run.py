"""The state of a run in progress, from its files."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.store.in_progress import is_in_progress
from paceline.ui.history import MOST_INTERVALS, Intervals, Series
from paceline.ui.live_run import LiveRun
from paceline.ui.live_view import Bottleneck, about, live_view
from report.stored import START_S
from ui.growing_run import growing_run


def view(run: LiveRun, first: int = 0) -> dict[str, Any]:
    run.advance()
    return live_view(run, Bottleneck(), first)


def test_a_run_is_followed_from_its_start(tmp_path: Path) -> None:
    with growing_run(tmp_path, layout="pw w") as growing:
        run = LiveRun(growing.writer.paths)
        assert is_in_progress(growing.writer.paths)
        assert view(run)["waiting"] == "waiting for hosts to join: h1, h2"
        growing.join()
        assert view(run)["waiting"] == "waiting for tasks to start: ps0, w0, w1"
        assert view(run)["stage"] == "starting"
        growing.open()
        growing.train(4)
        state = view(run)
        assert state["stage"] == "training"
        assert state["waiting"] == ""
        assert state["update"] == 800
        assert [worker["steps"] for worker in state["workers"]] == [400, 400]
        assert state["workers"][0]["phases"]["compute"] == pytest.approx(0.65, abs=0.02)
        assert state["progress"]["steps=100000"] == pytest.approx(0.008)
        assert [one[1] for one in state["evaluations"]] == [200, 400, 600, 800]
        assert state["history"]["updates"][:4] == pytest.approx([200, 200, 200, 200], rel=0.02)
        host = state["history"]["hosts"]["h1"]
        assert host["rx"][1:4] == pytest.approx([5, 5, 5], rel=0.1)
        assert host["cpu"][1:4] == pytest.approx([0.75] * 3, rel=0.1)
        growing.train(2)
        assert view(run, first=3)["history"]["t"][:3] == [3.5, 4.5, 5.5]
    assert not is_in_progress(growing.writer.paths)


def test_a_page_that_is_opened_late_has_the_whole_history(tmp_path: Path) -> None:
    with growing_run(tmp_path, layout="pw w") as growing:
        early = LiveRun(growing.writer.paths)
        growing.join()
        growing.open()
        for _ in range(5):
            growing.train(1)
            early.advance()
        late = view(LiveRun(growing.writer.paths))
        seen = view(early)
        assert late["history"]["updates"] == seen["history"]["updates"]
        assert late["evaluations"] == seen["evaluations"]
        assert late["update"] == seen["update"] == 1_000


def test_a_worker_without_steps_and_a_silent_host_are_seen_at_once(tmp_path: Path) -> None:
    """The files say that the last record is some seconds old."""
    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        growing.open()
        growing.train(2)
        growing.event("fault", START_S + 2, what="freeze w1 for 9s at 2s", task="w1", host="h2")
        state = view(LiveRun(growing.writer.paths))
        notes = {worker["task"]: worker["note"] for worker in state["workers"]}
        assert notes["w1"].startswith("no step for ")
        assert notes["w1"].endswith("fault: freeze")
        assert "no sample for" in state["hosts"][0]["note"]
        assert state["marks"][0]["lasts"]
        assert state["marks"][0]["at"] == pytest.approx(2.0)


def test_the_bottleneck_of_the_last_seconds_is_that_of_the_result(tmp_path: Path) -> None:
    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        growing.open()
        growing.train(6)
        run = LiveRun(growing.writer.paths)
        run.advance()
        verdict = run.verdict()
        assert verdict
        assert (verdict.cause, verdict.where) == ("compute", "w0 on h1")
        shown = Bottleneck()
        shown.set(verdict, 5.0)
        shown.set(verdict, 9.0)
        assert shown.shown
        assert shown.shown["since_s"] == 5.0


def test_limits_and_conditions_are_known(tmp_path: Path) -> None:
    with growing_run(tmp_path, layout="pw w", hosts="netns", link="100mbit") as growing:
        growing.join()
        run = LiveRun(growing.writer.paths)
        run.advance()
        facts = about(run)
        assert facts["links"] == {"h1": 12.5, "h2": 12.5}
        assert facts["cores"] == {"h1": 4, "h2": 4}
        assert dict(facts["facts"])["strategy"] == "ps-async"


def test_damage_in_the_journal_ends_nothing(tmp_path: Path) -> None:
    with growing_run(tmp_path, layout="pw w") as growing:
        growing.join()
        growing.open()
        growing.train(1)
        run = LiveRun(growing.writer.paths)
        run.advance()
        with growing.writer.paths.journal.open("ab") as journal:
            journal.write(b"\xff" * 40)
        with growing.writer.paths.events.open("ab") as events:
            events.write(b'{"event": 3}\nnot json\n')
        assert view(run)["update"] == 200


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=300))
def test_no_value_is_lost_when_intervals_become_longer(times: list[float]) -> None:
    intervals = Intervals()
    counts: Series[int] = Series(intervals, lambda one, other: one + other)
    for time in times:
        counts.add(time, 1)
    assert sum(counts.values.values()) == len(times)
    assert max(counts.values) <= intervals.last < MOST_INTERVALS
    assert intervals.last == int(max(times) / intervals.width_s)
