"""How near a run is to its end, by each of its stop rules. Pure."""

import math

from paceline.control.run_state import RunState
from paceline.spec.stop import StopRule


def progress(moment: RunState) -> dict[str, float]:
    """For each rule how much of the way is made, from 0 to 1; the one that is nearest will end the run."""
    return {str(rule): _share(rule, moment) for rule in moment.plan.spec.stop}


def _share(rule: StopRule, moment: RunState) -> float:
    _, loss, accuracy = moment.evaluation or (0, math.inf, 0.0)
    match rule.kind:
        case "steps":
            share = moment.update / rule.value
        case "epochs":
            share = moment.update / (rule.value * moment.plan.updates_per_epoch)
        case "seconds":
            share = moment.elapsed_s / rule.value
        case "loss":
            share = 1.0 if loss <= rule.value else rule.value / loss
        case "accuracy":
            share = accuracy / rule.value
    return min(1.0, share) if share >= 0 else 0.0  # a loss that is no number is no progress
