"""Who makes no progress, as a function of steps and time."""

import pytest

from paceline.control.watchdog import MIN_STALL_S, Progress, Stalled, Watchdog

FIRST_S, ASIDE_S = 100.0, 300.0


def watching(workers: int = 3, *, synchronous: bool = False) -> Watchdog:
    watchdog = Watchdog(
        [f"w{n}" for n in range(workers)], synchronous=synchronous, first_step_s=FIRST_S, busy_s=ASIDE_S
    )
    watchdog.check(0.0)
    watchdog.open([f"w{n}" for n in range(workers)])
    return watchdog


class Play:
    """Seconds that pass, with steps of those who make them."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog, self.now_s = watchdog, 0.0

    def go(self, seconds: float, *steppers: str, step_s: float = 0.01) -> Stalled | None:
        """The first alarm; `now_s` is then when it came."""
        end = self.now_s + seconds
        while self.now_s < end:
            self.now_s += 0.5
            if alarm := self.watchdog.check(self.now_s):
                return alarm
            for task in steppers:
                self.watchdog.add_steps(task, [step_s])
        return None


def test_a_worker_that_stops_is_flagged_while_the_others_go_on() -> None:
    play = Play(watching())
    assert play.go(5, "w0", "w1", "w2") is None
    alarm = play.go(30, "w0", "w2")
    assert alarm
    assert (alarm.tasks, alarm.everyone) == (("w1",), False)
    assert alarm.progress["w1"] == Progress(10, play.now_s - 5.0)
    assert MIN_STALL_S < play.now_s - 5 < MIN_STALL_S + 1


def test_an_alarm_is_raised_once_for_each() -> None:
    play = Play(watching())
    play.go(1, "w0", "w1", "w2")
    assert play.go(30, "w0", "w2")
    assert play.go(30, "w0", "w2") is None
    alarm = play.go(30, "w0")
    assert alarm
    assert alarm.tasks == ("w2",)


def test_slow_is_not_stuck() -> None:
    """Steps of 8 s, eight times those of the others, are given ten times as long."""
    play = Play(watching())
    for _ in range(5):
        assert play.go(8, "w0", "w2", step_s=1.0) is None
        play.watchdog.add_steps("w1", [8.0])
    stopped = play.now_s
    assert play.go(79, "w0", "w2", step_s=1.0) is None
    alarm = play.go(5, "w0", "w2", step_s=1.0)
    assert alarm
    assert alarm.tasks == ("w1",)
    assert 80 < play.now_s - stopped < 82


def test_one_long_step_does_not_make_a_worker_slow() -> None:
    play = Play(watching(1))
    play.go(10, "w0")
    play.watchdog.add_steps("w0", [60.0])
    assert play.go(MIN_STALL_S + 1)


def test_synchronous_workers_are_flagged_together_since_they_wait_for_each_other() -> None:
    play = Play(watching(synchronous=True))
    play.go(5, "w0", "w1", "w2")
    assert play.go(60, "w0") is None  # they cannot be waiting if one goes on
    alarm = play.go(MIN_STALL_S + 1)
    assert alarm
    assert (alarm.tasks, alarm.everyone) == (("w0", "w1", "w2"), True)


@pytest.mark.parametrize("what", ["eval", "checkpoint", "wait"])
def test_what_is_no_step_may_take_long_and_those_who_wait_for_it_too(what: str) -> None:
    play = Play(watching(synchronous=True))
    play.go(5, "w0", "w1", "w2")
    play.watchdog.busy("w0", what)
    assert play.go(ASIDE_S - 1) is None
    assert play.go(2)


def test_after_an_evaluation_steps_are_due_again() -> None:
    play = Play(watching(1))
    play.go(5, "w0")
    play.watchdog.busy("w0", "eval")
    assert play.go(50) is None
    play.watchdog.busy("w0", None)
    assert play.go(MIN_STALL_S - 1) is None
    assert play.go(2)


def test_the_first_step_has_as_long_as_the_start() -> None:
    play = Play(watching(2))
    assert play.go(FIRST_S - 1, "w0") is None
    alarm = play.go(2, "w0")
    assert alarm
    assert alarm.progress["w1"].steps == 0


def test_workers_that_are_done_are_not_missed() -> None:
    play = Play(watching(2, synchronous=True))
    play.go(1, "w0", "w1")
    play.watchdog.done("w0")
    play.watchdog.done("w1")
    assert play.go(1000) is None


def test_a_worker_that_begins_anew_has_a_first_step_again() -> None:
    play = Play(watching(2))
    play.go(5, "w0", "w1")
    play.watchdog.done("w1")
    assert play.go(50, "w0") is None
    play.watchdog.open(["w1"])
    assert play.go(FIRST_S - 1, "w0") is None
    assert play.go(2, "w0")


def test_nobody_is_blamed_for_the_time_the_controller_was_away() -> None:
    play = Play(watching())
    play.go(5, "w0", "w1", "w2")
    assert play.watchdog.check(500.0) is None


def test_who_is_heard_of_a_little_later_stands_still_as_well() -> None:
    """Both wait for a server that is frozen: none of them is the one to blame."""
    play = Play(watching(2))
    play.go(5, "w0", "w1")
    play.go(1, "w1")  # What it did before, told later.
    alarm = play.go(30)
    assert alarm
    assert (alarm.tasks, alarm.everyone) == (("w0", "w1"), True)
    assert play.go(30) is None


def test_who_evaluates_meanwhile_does_not_stand_still() -> None:
    play = Play(watching(2))
    play.go(5, "w0", "w1")
    play.watchdog.busy("w1", "eval")
    alarm = play.go(30)
    assert alarm
    assert (alarm.tasks, alarm.everyone) == (("w0",), False)
