"""Progress of a run towards each of its stop rules. Pure."""

import math

from paceline.control.run_state import RunState
from paceline.spec.stop import StopRule


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
        case "accuracy":
            share = accuracy / rule.value
    return min(1.0, share) if share >= 0 else 0.0  # A NaN loss counts as no progress.
