"""Runs that may never reach the loss or accuracy at which they are to end: what is said about them, and when. Pure."""

import math

from paceline import units
from paceline.control.run_state import RunState

PLATEAU_EVALUATIONS = 50
"""Evaluations without improvement after which a run is said to be at a plateau."""


def is_at_plateau(state: RunState) -> bool:
    return state.evaluations_without_improvement >= PLATEAU_EVALUATIONS


def plateau_incident(state: RunState) -> str | None:
    """The incident of a run whose target is out of sight; None while its evaluations improve."""
    if not is_at_plateau(state):
        return None
    return (
        f"no improvement for {state.evaluations_without_improvement} evaluations{_best_evaluation(state)}: the run may "
        f"never reach {_targets(state)}; --stop plateau=N ends such a run"
    )


def time_limit_exceeded(state: RunState) -> str | None:
    """Why the run ends now, for the user; None while it has time left."""
    limit_s = state.plan.time_limit_s
    if limit_s is None or state.elapsed_s < limit_s:
        return None
    limit, targets = units.duration_text(limit_s), _targets(state)
    missed = f"did not reach {targets}" if targets else "was not finished"
    return f"{missed} within the time limit of {limit}{_best_evaluation(state)}: raise the limit with --time-limit"


def _targets(state: RunState) -> str:
    return " or ".join(str(rule) for rule in state.plan.spec.stop if rule.is_target)


def _best_evaluation(state: RunState) -> str:
    """The evaluation that was best for a target of the run; without a target, the last one."""
    best = [state.best_evaluations[str(rule)] for rule in state.plan.spec.stop if str(rule) in state.best_evaluations]
    evaluation = best[0] if best else state.evaluation
    if evaluation is None:
        return ""
    update, loss, share = evaluation
    quality = f"loss {loss:.4f}" + ("" if math.isnan(share) else f", accuracy {share:.2%}")
    return f" ({'best: ' if best else ''}{quality} at update {update:,})"
