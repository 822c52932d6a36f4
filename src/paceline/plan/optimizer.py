"""The optimizer of a run: what the user and the workload ask for, refused where it cannot work."""

from paceline.errors import PlanError
from paceline.plan.catalog import Catalog, WorkloadFacts
from paceline.plan.layout import Layout
from paceline.spec.optimizer import Optimizer, resolve
from paceline.spec.run_options import RunSpec

_OPTIONS = ("optimizer", "schedule", "clip", "param_groups")
_DECAY_OF_ROWS = "set its weight_decay to 0"


def plan_optimizer(
    spec: RunSpec, workload: WorkloadFacts, catalog: Catalog, layout: Layout, *, last_update: int | None
) -> Optimizer:
    """The optimizer of a run; PlanError or SpecError if the run cannot have it. `last_update` as in `resolve`."""
    if not workload.trains or workload.script:
        _refuse_options(spec, f"{spec.workload} is not training and has no optimizer")
        return Optimizer(lr=0.0)
    strategy, engine = catalog.strategies[spec.strategy], catalog.engines[spec.engine]
    if strategy.own_optimizer:
        _refuse_options(spec, f"strategy {spec.strategy} has an optimizer of its own")
        return Optimizer(lr=workload.training.lr or 0.0)
    gradients = strategy.gradients_per_update(layout.workers, spec.backup)
    optimizer = resolve(
        spec.training,
        workload.training,
        last_update=last_update,
        lr_factor=gradients if spec.lr_scale == "linear" else 1.0,
    )
    if not engine.any_optimizer and not _is_basic(optimizer):
        able = " or ".join(name for name, facts in catalog.engines.items() if facts.any_optimizer)
        raise PlanError(
            f"engine {spec.engine} has only the optimizers sgd and momentum, with a constant learning rate and without "
            f"weight decay, clipping and groups: remove these options, or use --engine {able}"
        )
    if workload.by_rows:
        _check_rows(optimizer, spec.workload)
    if workload.parameter_names:
        optimizer.check_groups(workload.parameter_names)
    if optimizer.clip and strategy.synchronous:
        _check_clipping(spec, layout, catalog)
    return optimizer


def _refuse_options(spec: RunSpec, reason: str) -> None:
    for option in _OPTIONS:
        if getattr(spec, option) is not None:
            raise PlanError(f"{reason}: remove {option}")


def _is_basic(optimizer: Optimizer) -> bool:
    plain = not (optimizer.weight_decay or optimizer.clip or optimizer.groups)
    return plain and optimizer.kind in ("sgd", "momentum") and optimizer.has_constant_rate


def _check_rows(optimizer: Optimizer, title: str) -> None:
    changes_all = "momentum" if "velocity" in optimizer.state_names else None
    if optimizer.weight_decay or any(group.weight_decay for group in optimizer.groups):
        changes_all = changes_all or "weight decay"
    if changes_all:
        remedy = "use sgd, adagrad or adam" if changes_all == "momentum" else _DECAY_OF_ROWS
        raise PlanError(
            f"{title} updates only the rows that a batch uses, but {changes_all} changes all rows: {remedy}"
        )


def _check_clipping(spec: RunSpec, layout: Layout, catalog: Catalog) -> None:
    if spec.backup:
        raise PlanError("clip needs the gradient of every worker: remove --backup or clip")
    if layout.servers > 1 and not catalog.engines[spec.engine].clips_across_servers:
        raise PlanError(
            f"clip needs the whole gradient, but layout '{layout}' divides it among {layout.servers} servers of engine "
            f"{spec.engine}: leave one p, or remove clip"
        )
