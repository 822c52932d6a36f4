"""Which tasks of a run may be restarted after a failure."""

from paceline.control.events import RestartPolicy
from paceline.engines.registry import engines
from paceline.plan.place import RunPlan
from paceline.plan.roles import CHIEF


def restart_policy(plan: RunPlan) -> RestartPolicy:
    """Engine and strategy decide which tasks can be restarted alone; the user decides whether they are."""
    spec = plan.spec
    if spec.on_failure == "fail":
        return RestartPolicy()
    restart_requested = spec.on_failure == "restart"
    others_continue = not plan.strategy.synchronous or plan.strategy.others_take_over
    workers_can_rejoin = (
        plan.servers and engines()[spec.engine].workers_rejoin and (restart_requested or others_continue)
    )
    workers = frozenset(place.task for place in plan.workers) if workers_can_rejoin else frozenset()
    # All workers read the parameter values in the chief's shared memory, so the chief cannot be restarted alone. With
    # backup workers or in asynchronous runs, every worker has its own copy.
    cannot_restart_alone = (
        {CHIEF} if plan.strategy.synchronous and plan.transport == "memory" and not spec.backup else set()
    )
    if plan.strategy.synchronous and plan.optimizer.clip and len(plan.servers) > 1:
        # Before the servers make an update, the chief adds up the norms of their parts of the gradient. A worker that
        # rejoins at that moment could find some of them before the update and some after it.
        cannot_restart_alone = {place.task for place in plan.workers}
    reassignable = workers if restart_requested and plan.trains else frozenset()
    return RestartPolicy(
        rejoin=workers - cannot_restart_alone,
        all_tasks=restart_requested,
        reassignable=reassignable,
        max_restarts=spec.restarts,
    )
