"""Progress of a run towards each of its stop rules. Pure."""

import math

from paceline.control.run_state import RunState
from paceline.spec.stop import StopRule

_RATE_VALUES = 20
"""Values of `RunState.throughput` from which the remaining time is estimated: the last 20 s."""

_LARGEST_LOSS = 700.0
"""The exponential of a larger loss is no float."""


def progress(state: RunState) -> dict[str, float]:
    """Progress from 0 to 1 by rule. The rule that is first at 1 ends the run."""
    return {str(rule): _share(rule, state) for rule in state.plan.spec.stop}


def _share(rule: StopRule, state: RunState) -> float:
    _, loss, accuracy = state.evaluation or (0, math.inf, 0.0)
    match rule.kind:
        case "steps":
            share = state.update / rule.value
        case "epochs":
            share = state.update / (rule.value * state.plan.updates_per_epoch)
        case "seconds":
            share = state.elapsed_s / rule.value
        case "loss":
            share = 1.0 if loss <= rule.value else rule.value / loss
        case "perplexity":
            share = rule.value / math.exp(min(loss, _LARGEST_LOSS)) if state.evaluation else 0.0
        case "accuracy":
            share = accuracy / rule.value
        case "plateau":
            share = state.improvement[str(rule)].evaluations_since / rule.value
        case _:  # Step records have no column for it.
            share = 0.0
    return min(1.0, share) if share >= 0 else 0.0  # A NaN loss counts as no progress.


def time_left_s(state: RunState) -> float | None:
    """Seconds until the first of the rules is met that allow an estimate (steps, epochs, seconds); None without one."""
    estimates = [_time_left_s(rule, state) for rule in state.plan.spec.stop]
    return min((seconds for seconds in estimates if seconds is not None), default=None)


def _time_left_s(rule: StopRule, state: RunState) -> float | None:
    match rule.kind:
        case "steps":
            return _time_to_update_s(rule.value, state)
        case "epochs":
            return _time_to_update_s(rule.value * state.plan.updates_per_epoch, state)
        case "seconds":
            return max(0.0, rule.value - state.elapsed_s)
        case _:
            return None


def _time_to_update_s(update: float, state: RunState) -> float | None:
    recent = state.throughput[-_RATE_VALUES:]
    rate = sum(recent) / len(recent) if recent else state.updates_per_s
    return max(0.0, update - state.update) / rate if rate > 0 else None
