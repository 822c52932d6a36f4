"""The bottleneck of a run in progress: when it counts, since when, and when it is an incident."""

from concurrent.futures import Future
from pathlib import Path

import pytest

from paceline.analyze.bottleneck.judge import NOT_CLEAR
from paceline.control.live_bottleneck import LiveBottleneck
from paceline.store.live_verdict import LiveVerdictFile
from paceline.store.paths import RunPaths
from paceline.store.verdict import Verdict
from ui.growing_run import growing_run


def verdict(cause: str, where: str = "w1 on h3", share: float = 0.6) -> Verdict:
    return Verdict(cause=cause, where=where, share=share, evidence=[], remedy=[])


@pytest.fixture
def live(tmp_path: Path) -> LiveBottleneck:
    return LiveBottleneck(RunPaths(tmp_path))


def find(live: LiveBottleneck, *found: Verdict, start_s: float = 0.0) -> list[str]:
    """The incidents, if these bottlenecks are found one after the other, every ten seconds."""
    incidents = (live._found(one, start_s + 10.0 * number) for number, one in enumerate(found, 1))
    return [incident for incident in incidents if incident]


def test_the_first_bottleneck_counts_at_once_and_another_one_when_it_is_found_twice(live: LiveBottleneck) -> None:
    assert find(live, verdict(NOT_CLEAR, ""), verdict("compute")) == []
    assert live.current is not None
    assert (live.current.cause, live.current.since_s) == ("compute", 0.0)
    find(live, verdict("input"))
    assert live.current.cause == "compute"
    find(live, verdict("input"), start_s=10.0)
    assert live.current.cause == "input"


def test_a_bottleneck_that_begins_later_is_an_incident_with_its_time(live: LiveBottleneck) -> None:
    compute, slow = verdict("compute", "w0 on h1"), verdict("straggler")
    assert find(live, compute, compute, slow, compute, slow, slow) == [
        "the bottleneck is now straggler, w1 on h3, since about 48 s of training"
    ]


def test_a_slow_worker_on_another_host_is_another_bottleneck(live: LiveBottleneck) -> None:
    first, second = verdict("straggler", "w1 on h3"), verdict("straggler", "w0 on h2")
    assert len(find(live, first, first, second, second, first, first)) == 2


@pytest.mark.parametrize("then", [verdict("compute"), verdict(NOT_CLEAR, ""), verdict("network", "h1", share=0.3)])
def test_other_changes_are_no_incidents(live: LiveBottleneck, then: Verdict) -> None:
    assert find(live, verdict("input"), verdict("input"), then, then) == []


def test_a_run_without_records_has_no_bottleneck(live: LiveBottleneck) -> None:
    assert [live.poll(float(second)) for second in range(3)] == [None] * 3
    live.close()
    assert live.current is None


def test_searches_that_take_long_are_made_less_often(live: LiveBottleneck) -> None:
    found: Future[tuple[Verdict | None, float]] = Future()
    found.set_result((verdict("compute"), 2.0))
    live._search = found
    live.poll(10.0)
    live.poll(29.9)
    assert live._search is None
    live.poll(30.0)
    assert live._search is not None
    live.close()


def test_other_processes_can_read_what_was_found(tmp_path: Path) -> None:
    with growing_run(tmp_path, layout="pw w") as growing:
        live, file = LiveBottleneck(growing.writer.paths), LiveVerdictFile(growing.writer.paths)
        growing.writer.on_entry = live.add
        growing.join()
        growing.open()
        growing.train(6)
        assert file.new_verdict() is None
        assert not file.exists
        live.poll(6.0)
        live.close()  # Waits for the search.
        live.poll(6.1)
        found = file.new_verdict()
        assert found
        assert live.current
        assert (found.cause, found.where) == (live.current.cause, live.current.where) == ("compute", "w0 on h1")
        assert file.new_verdict() is None
        assert file.exists
