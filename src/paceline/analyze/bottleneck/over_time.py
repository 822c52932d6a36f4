"""The bottleneck over time: when it began, and whether it persists, comes back or moves from worker to worker.

The training is divided into windows of equal length. Each window is judged like a whole run, and neighbouring windows
with the same bottleneck are merged into an episode.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import msgspec
import numpy as np
import polars as pl

from paceline.analyze.bottleneck.collect_facts import collect_facts
from paceline.analyze.bottleneck.episodes import (
    IN_TURN,
    STRAGGLER,
    bottleneck_key,
    describe_episodes,
    moves_between_workers,
    prevailing_episode,
)
from paceline.analyze.bottleneck.judge import NOT_CLEAR, judge
from paceline.analyze.bottleneck.remedies import configuration_of
from paceline.analyze.hosts import background_cores
from paceline.analyze.machines import machines_of
from paceline.analyze.run_hosts import hosts_between
from paceline.analyze.run_wait import spread_run_wait
from paceline.analyze.run_window import RunWindow
from paceline.analyze.workers import StepSums, worker_results
from paceline.store.run import StoredRun
from paceline.store.verdict import AccountedTime, Episode, Verdict

SHORTEST_WINDOW_S = 1.0
"""Shorter windows hold too few samples of the hosts, of which there are ten per second."""
_MOST_WINDOWS = 20
_FEWEST_WINDOWS = 4
_STEPS_PER_WINDOW = 4
"""Steps of the slowest worker that a window must hold."""
_ROWS_PER_WINDOW = 40_000
"""Of a window with more rows, only the beginning is judged, so that long runs are not slow to analyze."""
_CLEAR_SHARE = 0.5
"""A cause that is named for a single window, between two windows with another one, must have this share."""
_NEARLY_AS_LARGE = 0.7
"""A cause is nearly as large as the largest one of its window if it has this part of its share."""
_MIN_SLOWDOWN = 1.1
"""Ratio of step durations before and after a change from which they show when it happened."""


class JudgedWindow(msgspec.Struct, frozen=True):
    start_s: float
    end_s: float
    verdict: Verdict

    @property
    def key(self) -> tuple[str, str]:
        """Equal for windows with the same bottleneck."""
        return bottleneck_key(self.verdict.cause, self.verdict.where)


def judge_over_time(run: StoredRun, verdict: Verdict, start_s: float, end_s: float) -> Verdict:
    """The verdict about a training from `start_s` to `end_s` on the run's clock, with its episodes."""
    windows = [
        JudgedWindow(first_s, last_s, judge_window(window, first_s, last_s))
        for window, first_s, last_s in _windows(run, start_s, end_s)
    ]
    windows = agreeing_windows(windows, verdict)
    found = merge_windows(windows)
    for before, after in pairwise(found):
        window_s = windows[0].end_s - windows[0].start_s
        onset_s = onset_between(run, after.start_s - window_s, after.start_s + window_s)
        before.end_s = after.start_s = onset_s if onset_s is not None else after.start_s
    for episode in found:
        episode.start_s, episode.end_s = round(episode.start_s - start_s, 3), round(episode.end_s - start_s, 3)
    if moves_between_workers(verdict, found):
        verdict = _moving_straggler(verdict, windows, found)
    elif later := prevailing_episode(verdict, found):
        verdict = _of_prevailing(verdict, windows, later)
    return msgspec.structs.replace(
        verdict, episodes=found, evidence=[*verdict.evidence, *describe_episodes(verdict, found)]
    )


def _moving_straggler(verdict: Verdict, windows: Sequence[JudgedWindow], found: Sequence[Episode]) -> Verdict:
    """The verdict for a training in which one worker after the other was slow: no worker was slow on average."""
    places = list(dict.fromkeys(episode.where for episode in found if episode.cause == STRAGGLER))
    where = f"{', '.join(places)}, {IN_TURN}"
    slow = next(window.verdict for window in windows if window.verdict.cause == STRAGGLER)
    evidence = [f"one worker after the other was slow: {', '.join(places)}"]
    return _with_average_account(verdict, windows, STRAGGLER, where, evidence, slow.remedy)


def _of_prevailing(verdict: Verdict, windows: Sequence[JudgedWindow], later: Episode) -> Verdict:
    """The verdict for a training of which one bottleneck took most of the time, but only few, slow steps."""
    own = [window.verdict for window in windows if window.key == bottleneck_key(later.cause, later.where)]
    clearest = max(own, key=lambda one: one.share)
    return _with_average_account(verdict, windows, later.cause, later.where, clearest.evidence, clearest.remedy)


def _with_average_account(
    verdict: Verdict, windows: Sequence[JudgedWindow], cause: str, where: str, evidence: list[str], remedy: list[str]
) -> Verdict:
    """The verdict with another cause, if it has the largest share in the mean over the windows.

    In that mean every second counts the same, not every step.
    """
    shares: dict[str, float] = {}
    for window in windows:
        for part in window.verdict.account:
            shares[part.cause] = shares.get(part.cause, 0.0) + part.share / len(windows)
    account = [
        AccountedTime(cause=name, where=where if name == cause else _where(verdict, name), share=round(share, 4))
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
    ]
    main, *others = account
    if main.cause != cause:
        return verdict
    return msgspec.structs.replace(
        verdict,
        cause=cause,
        where=where,
        share=main.share,
        evidence=evidence,
        remedy=remedy,
        account=account,
        runner_up=others[0] if others else None,
        confidence="medium",
    )


def _where(verdict: Verdict, cause: str) -> str:
    return next((part.where for part in verdict.account if part.cause == cause), "")


def judge_window(window: StoredRun, start_s: float, end_s: float) -> Verdict:
    """The bottleneck of a run of which only a period is visible."""
    machines = machines_of(window)
    facts = collect_facts(
        window,
        worker_results(window, StepSums(window), {}),
        hosts_between(window, start_s, end_s),
        start_s=start_s,
        end_s=end_s,
        total_s=end_s,
        machines=machines,
        background_cores=background_cores(window.samples, start_s=start_s, end_s=end_s, shared=machines.shared),
    )
    return judge(
        msgspec.structs.replace(facts, startup_s=0.0), configuration_of(window.header, window.paths.directory.parent)
    )


def agreeing_windows(windows: Sequence[JudgedWindow], verdict: Verdict) -> list[JudgedWindow]:
    """The windows, with the bottleneck of the whole run wherever it is nearly as large as the largest cause.

    A window has few steps and samples, so that causes of about the same size take turns by chance.
    """
    own = bottleneck_key(verdict.cause, verdict.where)
    agreeing = []
    for window in windows:
        shares = {bottleneck_key(part.cause, part.where): part.share for part in window.verdict.account}
        if window.key != own and shares.get(own, 0.0) >= _NEARLY_AS_LARGE * max(shares.values(), default=0.0) > 0:
            same = msgspec.structs.replace(window.verdict, cause=verdict.cause, where=verdict.where, share=shares[own])
            window = msgspec.structs.replace(window, verdict=same)
        agreeing.append(window)
    return agreeing


def merge_windows(windows: Sequence[JudgedWindow]) -> list[Episode]:
    """The episodes of consecutive windows. A short interruption that is not certain belongs to what is around it."""
    merged = []
    for _, group in groupby(_without_flicker(windows), key=lambda window: window.key):
        part = list(group)
        # The windows of one cause may be at different places: the most frequent one is named.
        places = [window.verdict.where for window in part]
        merged.append(
            Episode(
                cause=part[0].key[0],
                where=max(places, key=places.count),
                start_s=part[0].start_s,
                end_s=part[-1].end_s,
                share=round(sum(window.verdict.share for window in part) / len(part), 4),
            )
        )
    return merged


def _without_flicker(windows: Sequence[JudgedWindow]) -> list[JudgedWindow]:
    smooth = list(windows)
    for index in range(1, len(smooth) - 1):
        before, window, after = smooth[index - 1 : index + 2]
        is_certain = window.verdict.cause != NOT_CLEAR and window.verdict.share >= _CLEAR_SHARE
        if before.key == after.key != window.key and not is_certain:
            smooth[index] = msgspec.structs.replace(window, verdict=before.verdict)
    return smooth


def _windows(run: StoredRun, start_s: float, end_s: float) -> Iterator[tuple[RunWindow, float, float]]:
    """The windows of a training, with their start and end; none if it is too short or has too few steps."""
    steps = run.collect(
        run.scan_steps()
        .filter((pl.col("kind") == "step") & ~pl.col("traced"))
        .group_by("task")
        .agg(step_s=pl.col("duration_s").mean())
    )
    slowest_s = float(steps["step_s"].max() or 0.0)  # type: ignore[arg-type]
    seconds = end_s - start_s
    shortest_s = max(SHORTEST_WINDOW_S, _STEPS_PER_WINDOW * slowest_s)
    count = min(_MOST_WINDOWS, int(seconds / shortest_s))
    if count < _FEWEST_WINDOWS or not slowest_s:
        return
    traced = run.collect(run.scan_steps().filter(pl.col("traced") & (pl.col("kind") != "step")))
    samples = spread_run_wait(run.samples)
    for index in range(count):
        first_s, last_s = start_s + seconds * index / count, start_s + seconds * (index + 1) / count
        yield _window(run, traced, samples, first_s, last_s), first_s, last_s


def _window(
    run: StoredRun, traced: pl.DataFrame, all_samples: pl.DataFrame, first_s: float, last_s: float
) -> RunWindow:
    # The proportions of phases in a fused call are known from traced steps, which may be outside of the window.
    inside = pl.col("t_s").is_between(first_s, last_s, closed="left") & ~(pl.col("traced") & (pl.col("kind") != "step"))
    rows = run.collect(run.scan_steps().filter(inside)).sort("t_s")
    samples = all_samples.filter(pl.col("t_s").is_between(first_s, last_s))
    if len(rows) > _ROWS_PER_WINDOW:
        rows = rows.head(_ROWS_PER_WINDOW)
        last_row_s = float(rows["t_s"][-1])
        samples = samples.filter(pl.col("t_s") <= max(last_row_s, first_s + SHORTEST_WINDOW_S / 2))
    return RunWindow(run, pl.concat([traced, rows]), samples)


def onset_between(run: StoredRun, first_s: float, last_s: float) -> float | None:
    """The time between `first_s` and `last_s` at which the steps became slower or faster; None if they did not."""
    rows = run.collect(
        run.scan_steps()
        .filter((pl.col("kind") == "step") & ~pl.col("traced") & pl.col("t_s").is_between(first_s, last_s))
        .select("t_s", "duration_s")
    ).sort("t_s")
    return change_point(rows["t_s"].to_numpy(), rows["duration_s"].to_numpy())


def change_point(times: np.ndarray, durations: np.ndarray) -> float | None:
    """The time that divides steps into two parts whose logarithmic durations differ the most; None without one."""
    count = len(durations)
    if count < 2 * _STEPS_PER_WINDOW or not (durations > 0).all():
        return None
    values = np.log(durations)
    left = np.arange(1, count)
    sums = np.cumsum(values)[:-1]
    before, after = sums / left, (values.sum() - sums) / (count - left)
    between = left * (count - left) / count * (after - before) ** 2
    between[: _STEPS_PER_WINDOW // 2] = between[-(_STEPS_PER_WINDOW // 2) :] = 0.0
    best = int(between.argmax())
    if abs(after[best] - before[best]) < np.log(_MIN_SLOWDOWN):
        return None
    return float(times[best + 1])
