"""What follows from faults, on made-up steps and events: 100 steps a second, unless a fault says otherwise."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from paceline.analyze.recovery import recoveries
from paceline.store.result import FaultResult

START_S = 2.0
HOMES = {"ps0": "h1", "w0": "h1", "w1": "h2"}


def steps(*stretches: tuple[float, float, float]) -> pl.DataFrame:
    """Step rows of (from second, to second, steps a second) of the run's clock."""
    times = np.concatenate([np.arange(start, end, 1 / pace) for start, end, pace in stretches])
    return pl.DataFrame({"kind": "step", "t_s": times, "duration_s": np.full(len(times), 0.005)})


def event(t_s: float, name: str, **fields: Any) -> dict[str, Any]:
    return {"t_s": t_s, "event": name, **fields}


def fault(t_s: float, what: str = "kill w1 at 10s", task: str | None = "w1", host: str = "h2") -> dict[str, Any]:
    return event(t_s, "fault", what=what, task=task, host=host)


def found(events: list[dict[str, Any]], table: pl.DataFrame, asked: tuple[str, ...] = ()) -> list[FaultResult]:
    return recoveries(events, lambda: table["t_s"] + table["duration_s"], asked, HOMES, START_S)


def test_a_kill_that_ended_the_run_was_noticed_and_never_made_good() -> None:
    events = [fault(12.0), event(12.4, "incident", what="w1 on h2 was killed", task="w1", host="h2")]
    (one,) = found(events, steps((2.0, 12.0, 100)))
    assert (one.what, one.task, one.host, one.at_s, one.over_s) == ("kill w1 at 10s", "w1", "h2", 10.0, None)
    assert one.detected_s == pytest.approx(0.4)
    assert (one.restarted_s, one.back_at_speed_s, one.updates_lost) == (None, None, 0)


def test_a_restart_is_told_from_the_fault_to_the_work_and_to_the_speed() -> None:
    events = [
        fault(12.0),
        event(12.3, "incident", what="w1 on h2 was killed", task="w1", host="h2"),
        event(12.4, "restarting", tasks=["ps0", "w0", "w1"], attempt=1, whole=True),
        event(15.0, "restored", update=900, lost=130),
        event(16.0, "back", tasks=["ps0", "w0", "w1"]),
    ]
    (one,) = found(events, steps((2.0, 12.5, 100), (16.0, 18.0, 50), (18.0, 25.0, 100)))
    assert one.detected_s == pytest.approx(0.3)
    assert one.restarted_s == pytest.approx(4.0)
    assert one.back_at_speed_s == pytest.approx(6.0, abs=0.21)
    assert one.updates_lost == 130


def test_the_rest_of_the_speed_before_the_restart_does_not_count_as_back() -> None:
    events = [fault(12.0), event(15.0, "back", tasks=["w1"])]
    (one,) = found(events, steps((2.0, 14.0, 100), (15.0, 25.0, 100)))
    assert one.back_at_speed_s == pytest.approx(3.0)


def test_a_freeze_is_over_and_the_pace_comes_back() -> None:
    what = "freeze w1 for 5s at 10s"
    events = [fault(12.0, what), event(17.0, "fault-over", what=what, task="w1", host="h2")]
    (one,) = found(events, steps((2.0, 12.0, 100), (17.0, 25.0, 100)))
    assert (one.at_s, one.over_s) == (10.0, 15.0)
    assert one.back_at_speed_s == pytest.approx(5.0, abs=0.21)
    assert one.detected_s is None


def test_a_run_that_never_was_slower_is_back_at_once() -> None:
    (one,) = found([fault(12.0)], steps((2.0, 25.0, 100)))
    assert one.back_at_speed_s == 0.0


def test_a_run_that_stays_slow_is_never_back() -> None:
    (one,) = found([fault(12.0)], steps((2.0, 12.0, 100), (12.0, 25.0, 80)))
    assert one.back_at_speed_s is None


def test_rare_steps_are_looked_at_over_longer_windows() -> None:
    slow = steps((2.0, 102.0, 1), (122.0, 222.0, 1))
    (one,) = found([fault(102.0)], slow)
    assert one.back_at_speed_s == pytest.approx(20.0, abs=4.1)


def test_before_the_first_steps_there_is_no_pace_to_come_back_to() -> None:
    (one,) = found([fault(2.1)], steps((2.0, 25.0, 100)))
    assert one.back_at_speed_s is None


def test_the_pace_before_leaves_out_the_time_of_earlier_faults() -> None:
    slow = "slow h1 to 0.1 cpus for 20s at 2s"
    events = [
        fault(4.0, slow, None, "h1"),
        event(24.0, "fault-over", what=slow, task=None, host="h1"),
        fault(26.0, "freeze w1 for 2s at 24s"),
        event(28.0, "fault-over", what="freeze w1 for 2s at 24s", task="w1", host="h2"),
    ]
    table = steps((2.0, 4.0, 100), (4.0, 24.0, 10), (24.0, 26.0, 100), (26.0, 28.0, 10), (28.0, 35.0, 100))
    first, second = found(events, table)
    assert first.back_at_speed_s == pytest.approx(20.0, abs=0.21)
    assert second.back_at_speed_s == pytest.approx(2.0, abs=0.21)


def test_an_incident_is_of_the_fault_whose_victim_it_names() -> None:
    events = [
        fault(12.0, "cut h2 for 5s at 10s", None, "h2"),
        event(13.0, "incident", what="interrupted by the user", task=None, host=None),
        event(14.0, "incident", what="w0 on h1 waits", task="w0", host="h1"),
        event(15.0, "incident", what="w1 on h2 does not answer", task="w1", host="h2"),
    ]
    (one,) = found(events, steps((2.0, 12.0, 100)))
    assert one.detected_s == pytest.approx(3.0)


def test_an_incident_of_another_that_speaks_of_the_victim_counts() -> None:
    events = [
        fault(12.0, "freeze ps0 for 9s at 10s", "ps0", "h1"),
        event(14.0, "incident", what="w1 on h2 failed: lost ps01", task="w1", host="h2"),
        event(15.0, "incident", what="w1 on h2 failed: lost ps0, which owed an answer", task="w1", host="h2"),
    ]
    (one,) = found(events, steps((2.0, 12.0, 100)))
    assert one.detected_s == pytest.approx(3.0)


def test_the_loss_of_a_tasks_host_is_its_loss() -> None:
    events = [fault(12.0), event(12.5, "incident", what="the agent of h2 is gone", task=None, host="h2")]
    (one,) = found(events, steps((2.0, 12.0, 100)))
    assert one.detected_s == pytest.approx(0.5)


def test_what_comes_after_the_next_fault_of_the_same_victim_is_its_doing() -> None:
    again = "kill w1 at 15s"
    events = [
        fault(12.0),
        event(13.0, "back", tasks=["w1"]),
        fault(17.0, again),
        event(17.2, "incident", what="w1 on h2 was killed", task="w1", host="h2"),
        event(18.0, "restored", update=10, lost=7),
    ]
    first, second = found(events, steps((2.0, 20.0, 100)))
    assert (first.detected_s, first.restarted_s, first.updates_lost) == (None, 1.0, 0)
    assert second.detected_s == pytest.approx(0.2)
    assert (second.restarted_s, second.updates_lost) == (None, 7)


def test_a_fault_that_never_came_is_there_without_a_time() -> None:
    asked = ("kill w1 at 10s", "kill w1 at 10s", "cut h2 for 5s at 90s")
    came, twin, never = found([fault(12.0)], steps((2.0, 12.0, 100)), asked)
    assert came.at_s == 10.0
    assert (twin.what, twin.at_s) == ("kill w1 at 10s", None)
    assert (never.what, never.at_s, never.back_at_speed_s) == ("cut h2 for 5s at 90s", None, None)


def test_a_run_without_steps_or_faults_has_nothing_to_tell() -> None:
    nothing = steps((2.0, 12.0, 100)).clear()
    assert found([], nothing) == []
    assert found([fault(12.0)], nothing)[0].back_at_speed_s is None
