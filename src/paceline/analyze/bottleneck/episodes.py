"""What the episodes of a training say about its bottleneck: when it began, whether it comes back or moves."""

from collections.abc import Sequence

from paceline.analyze.bottleneck.judge import NOT_CLEAR
from paceline.present import labels
from paceline.store.verdict import Episode, Verdict

STRAGGLER = "straggler"
IN_TURN = "in turn"
_LOCATED = frozenset({STRAGGLER, "imbalance"})
"""Causes that are another bottleneck if they are at another place."""
_MOST_LISTED = 6
"""More episodes than these are counted instead of listed."""
_MOST = 0.5
"""A bottleneck that was there for at least this share of the training is the bottleneck of the run."""
_AGREES = 0.6
"""A bottleneck with 80 % of the workers' time must have been the largest cause for this part of 80 % of the training,
and likewise for other shares."""
_STARTS_LATE_S = 0.5
"""An episode that starts later than this after the start of the training did not last from the start."""


def bottleneck_key(cause: str, where: str) -> tuple[str, str]:
    """A key that is equal for two findings of the same bottleneck.

    A straggler on another worker is another bottleneck; compute on another worker is the same one.
    """
    return cause, where if cause in _LOCATED else ""


def _key(part: Episode | Verdict) -> tuple[str, str]:
    return bottleneck_key(part.cause, part.where)


def moves_between_workers(verdict: Verdict, episodes: Sequence[Episode]) -> bool:
    """Whether different workers were slow at different times for most of the training."""
    if not episodes or verdict.cause == "startup":
        return False
    slow = [episode for episode in episodes if episode.cause == STRAGGLER]
    slow_s = sum(episode.end_s - episode.start_s for episode in slow)
    return len({episode.where for episode in slow}) > 1 and slow_s >= _MOST * episodes[-1].end_s


def prevailing_episode(verdict: Verdict, episodes: Sequence[Episode]) -> Episode | None:
    """The episode that takes most of the training, if its bottleneck is another one than that of the mean step.

    A bottleneck that makes steps slow has few of them, so that the steps before it dominate what is counted by step.
    """
    if len(episodes) < 2 or verdict.cause == "startup":
        return None
    longest = max(episodes, key=lambda episode: episode.end_s - episode.start_s)
    prevails = _seconds(episodes, _key(longest)) >= _MOST * episodes[-1].end_s
    is_other = _key(longest) != _key(verdict) and longest.cause != NOT_CLEAR
    return longest if prevails and is_other else None


def _seconds(episodes: Sequence[Episode], key: tuple[str, str]) -> float:
    """How long a bottleneck was there, in all its episodes."""
    return sum(episode.end_s - episode.start_s for episode in episodes if _key(episode) == key)


def describe_episodes(verdict: Verdict, episodes: Sequence[Episode]) -> list[str]:
    """Sentences about when the bottleneck was there; none if it was there all the time.

    None either if the episodes contradict the account of the whole training: then they are too short to be trusted.
    """
    if len(episodes) < 2 or _seconds(episodes, _key(verdict)) < _AGREES * verdict.share * episodes[-1].end_s:
        return []
    own = [episode for episode in episodes if _key(episode) == _key(verdict)]
    lines = [line] if (line := _when(own, episodes[-1].end_s)) else []
    if len(episodes) <= _MOST_LISTED:
        lines.append("over time: " + "; ".join(map(_describe, episodes)))
    else:
        lines.append(f"the bottleneck changed {len(episodes) - 1} times during the training")
    return lines


def describe_change(verdict: Verdict, since_s: float) -> str:
    """The text of an incident: another bottleneck has begun."""
    where = f", {verdict.where}" if verdict.where else ""
    return f"the bottleneck is now {labels.cause(verdict.cause)}{where}, since about {since_s:.0f} s of training"


def _when(own: Sequence[Episode], end_s: float) -> str:
    if not own:
        return ""
    if len(own) > 1:
        return f"it recurred: {len(own)} periods, {_seconds(own, _key(own[0])):.1f} s of {end_s:.1f} s of training"
    (episode,) = own
    if episode.start_s > _STARTS_LATE_S and episode.end_s >= end_s:
        return f"it began {episode.start_s:.1f} s into the training and lasted until its end"
    if episode.start_s > _STARTS_LATE_S:
        return f"it lasted from {episode.start_s:.1f} s to {episode.end_s:.1f} s of the training"
    return f"it ended {episode.end_s:.1f} s into the training"


def _describe(episode: Episode) -> str:
    where = f", {episode.where}" if episode.where else ""
    return f"{episode.start_s:.1f}–{episode.end_s:.1f} s {labels.cause(episode.cause)}{where}"
