"""Bottlenecks over time: windows become episodes, and the moment of a change is found."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.analyze.bottleneck.episodes import describe_episodes, moves_between_workers, prevailing_episode
from paceline.analyze.bottleneck.judge import NOT_CLEAR
from paceline.analyze.bottleneck.over_time import JudgedWindow, agreeing_windows, change_point, merge_windows
from paceline.store.verdict import AccountedTime, Episode, Verdict


def verdict(cause: str, where: str = "w0 on h1", share: float = 0.6) -> Verdict:
    return Verdict(cause=cause, where=where, share=share, evidence=[], remedy=[])


def windows(*causes: tuple[str, str] | tuple[str, str, float]) -> list[JudgedWindow]:
    return [JudgedWindow(float(n), float(n + 1), verdict(*cause)) for n, cause in enumerate(causes)]


def spans(found: list[Episode]) -> list[tuple[str, float, float]]:
    return [(episode.cause, episode.start_s, episode.end_s) for episode in found]


def test_neighbouring_windows_with_one_bottleneck_are_one_episode_wherever_it_is() -> None:
    found = merge_windows(windows(("compute", "w0"), ("compute", "w1"), ("network", "h1"), ("network", "h1")))
    assert spans(found) == [("compute", 0, 2), ("network", 2, 4)]


def test_stragglers_on_different_workers_are_different_episodes() -> None:
    found = merge_windows(windows(("straggler", "w0"), ("straggler", "w1")))
    assert [episode.where for episode in found] == ["w0", "w1"]


@pytest.mark.parametrize(
    ("between", "kept"), [((NOT_CLEAR, "", 0.0), 1), (("input", "w0", 0.3), 1), (("input", "w0", 0.7), 3)]
)
def test_a_single_window_counts_only_if_its_cause_is_certain(between: tuple[str, str, float], kept: int) -> None:
    assert len(merge_windows(windows(("compute", "w0"), between, ("compute", "w0")))) == kept


@given(st.lists(st.sampled_from(["compute", "network", NOT_CLEAR]), min_size=1, max_size=20))
def test_episodes_cover_the_training_without_gaps(causes: list[str]) -> None:
    found = merge_windows(windows(*((cause, "w0") for cause in causes)))
    assert found[0].start_s == 0.0
    assert found[-1].end_s == len(causes)
    assert all(before.end_s == after.start_s for before, after in pairwise(found))
    assert all(before.cause != after.cause for before, after in pairwise(found))


@given(st.integers(4, 60), st.integers(4, 60), st.floats(1.4, 20.0), st.integers(0, 1000))
def test_the_change_of_step_durations_is_found(before: int, after: int, factor: float, seed: int) -> None:
    noise = np.random.default_rng(seed).lognormal(0.0, 0.02, before + after)
    durations = np.where(np.arange(before + after) < before, 0.01, 0.01 * factor) * noise
    times = np.cumsum(durations)
    assert change_point(times, durations) == pytest.approx(times[before], abs=2 * durations.max())


def test_steps_of_equal_duration_have_no_change_point() -> None:
    assert change_point(np.arange(40.0), np.full(40, 0.01)) is None
    assert change_point(np.arange(3.0), np.array([0.01, 0.01, 1.0])) is None


def episode(cause: str, where: str, start_s: float, end_s: float) -> Episode:
    return Episode(cause=cause, where=where, start_s=start_s, end_s=end_s, share=0.6)


COMPUTE, SLOW = episode("compute", "w0 on h1", 0, 20), episode("straggler", "w1 on h3", 20, 60)


@pytest.mark.parametrize(
    ("episodes", "line"),
    [
        ([COMPUTE, SLOW], "it began 20.0 s into the training and lasted until its end"),
        ([COMPUTE, SLOW, episode("compute", "", 60, 90)], "it lasted from 20.0 s to 60.0 s of the training"),
        ([episode("straggler", "w1 on h3", 0, 5), episode("compute", "", 5, 9)], "it ended 5.0 s into the training"),
        (
            [SLOW, episode("compute", "", 60, 70), episode("straggler", "w1 on h3", 70, 80)],
            "it recurred: 2 periods, 50.0 s of 80.0 s of training",
        ),
    ],
)
def test_the_evidence_says_when_the_bottleneck_was_there(episodes: list[Episode], line: str) -> None:
    lines = describe_episodes(verdict("straggler", "w1 on h3"), episodes)
    assert lines[0] == line
    assert lines[1].startswith("over time: ")


def test_episodes_that_contradict_the_account_are_not_told() -> None:
    """A cause with 77 % of the time cannot have been the largest one for only 2.5 of 9 s."""
    episodes = [episode("contention", "", 0, 1), episode("server", "", 1, 7.5), episode("contention", "", 7.5, 9)]
    assert describe_episodes(verdict("contention", "", share=0.77), episodes) == []


def test_causes_over_time_have_the_names_of_the_account() -> None:
    lines = describe_episodes(verdict("input"), [episode("input", "w0", 0, 6), episode("contention", "h1", 6, 9)])
    assert lines[1] == "over time: 0.0–6.0 s data input, w0; 6.0–9.0 s CPU contention, h1"


def test_a_window_with_two_causes_of_about_the_same_size_has_the_bottleneck_of_the_run() -> None:
    def window(first: str, share: float, second: str, other: float) -> JudgedWindow:
        account = [
            AccountedTime(cause=first, where="a", share=share),
            AccountedTime(cause=second, where="b", share=other),
        ]
        judged = Verdict(cause=first, where="a", share=share, evidence=[], remedy=[], account=account)
        return JudgedWindow(0.0, 1.0, judged)

    near, far = window("server", 0.45, "contention", 0.4), window("server", 0.6, "contention", 0.2)
    found = agreeing_windows([near, far], verdict("contention", "the machine"))
    assert [(one.verdict.cause, one.verdict.share) for one in found] == [("contention", 0.4), ("server", 0.6)]


def test_a_bottleneck_that_was_always_there_needs_no_times() -> None:
    assert describe_episodes(verdict("compute"), [COMPUTE]) == []


def test_only_stragglers_on_several_workers_for_most_of_the_time_move() -> None:
    first, second = episode("straggler", "w0", 0, 30), episode("straggler", "w1", 30, 60)
    assert moves_between_workers(verdict("barrier"), [first, second])
    assert not moves_between_workers(verdict("barrier"), [first, episode("straggler", "w0", 30, 60)])
    assert not moves_between_workers(verdict("compute"), [first, second, episode("compute", "w0", 60, 200)])
    assert not moves_between_workers(verdict("startup"), [])


def test_a_bottleneck_of_most_of_the_time_prevails_over_that_of_the_mean_step() -> None:
    assert prevailing_episode(verdict("compute"), [COMPUTE, SLOW]) is SLOW
    assert prevailing_episode(verdict("straggler", "w1 on h3"), [COMPUTE, SLOW]) is None
    assert prevailing_episode(verdict("input"), [SLOW]) is None
    recurring = [SLOW, COMPUTE, episode("straggler", "w1 on h3", 60, 75)]
    assert prevailing_episode(verdict("compute"), recurring) is SLOW
    assert prevailing_episode(verdict("input"), [COMPUTE, episode(NOT_CLEAR, "", 20, 90)]) is None
