"""RunSpec -> RunPlan: tasks placed on hosts, with every impossible combination refused. Pure."""

import msgspec

from paceline.errors import PlanError, unknown
from paceline.plan.catalog import STRATEGIES, Catalog
from paceline.plan.layout import Layout, TaskPlace, resolve
from paceline.spec.experiment import RunSpec
from paceline.spec.stop import limiting_rule

DEFAULT_EVAL_EVERY = 100


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, ready to start."""

    spec: RunSpec
    layout: Layout
    places: tuple[TaskPlace, ...]
    synchronous: bool
    updates_per_epoch: int
    update_limit: int | None
    """Updates after which the run ends at the latest; None if only time or quality ends it."""
    eval_every: int | None
    """Updates between evaluations; None is only at the end."""

    @property
    def workers(self) -> tuple[TaskPlace, ...]:
        return tuple(place for place in self.places if place.role == "w")

    @property
    def servers(self) -> tuple[TaskPlace, ...]:
        return tuple(place for place in self.places if place.role == "ps")


def place(spec: RunSpec, catalog: Catalog) -> RunPlan:
    """The plan of one run; PlanError, in one line, if it cannot work."""
    _known(spec, catalog)
    facts = STRATEGIES[spec.strategy]
    layout = resolve(spec.layout or ("single" if facts.one_worker else "cluster"), needs_server=facts.has_server)
    _fits(spec, layout)
    examples = catalog.workloads[spec.workload].train_examples
    shard = examples // layout.workers
    if spec.batch > shard:
        raise PlanError(
            f"batch {spec.batch} is larger than a worker's shard of {shard} examples "
            f"({examples} over {layout.workers} workers): use a smaller batch or fewer workers"
        )
    steps_per_epoch = examples // (spec.batch * layout.workers)
    updates_per_epoch = steps_per_epoch if facts.synchronous else steps_per_epoch * layout.workers
    limited = limiting_rule(spec.stop, updates_per_epoch)
    limit = limited[0] if limited else None
    if not facts.synchronous and limit is not None and limit < layout.workers:
        raise PlanError(f"{limit} updates over {layout.workers} workers leave some without a step: ask for more")
    wants_quality = any(rule.kind in ("loss", "accuracy") for rule in spec.stop)
    return RunPlan(
        spec=spec,
        layout=layout,
        places=layout.places(),
        synchronous=facts.synchronous,
        updates_per_epoch=updates_per_epoch,
        update_limit=limit,
        eval_every=spec.eval_every or (DEFAULT_EVAL_EVERY if wants_quality else None),
    )


def _known(spec: RunSpec, catalog: Catalog) -> None:
    if spec.workload not in catalog.workloads:
        raise PlanError(unknown("workload", spec.workload, catalog.workloads))
    if spec.engine not in catalog.engines:
        raise PlanError(unknown("engine", spec.engine, catalog.engines))
    if spec.strategy not in STRATEGIES:
        raise PlanError(unknown("strategy", spec.strategy, STRATEGIES))
    if spec.hosts not in catalog.hosts:
        raise PlanError(unknown("kind of hosts", spec.hosts, catalog.hosts))
    engine = catalog.engines[spec.engine]
    if spec.strategy not in engine.strategies:
        raise PlanError(f"engine {spec.engine} has no {spec.strategy}: it has {', '.join(sorted(engine.strategies))}")
    if not engine.installed:
        raise PlanError(f"engine {spec.engine} is not installed: {engine.install_hint}")
    if spec.engine not in catalog.workloads[spec.workload].engines:
        raise PlanError(f"workload {spec.workload} does not run on engine {spec.engine}")


def _fits(spec: RunSpec, layout: Layout) -> None:
    facts = STRATEGIES[spec.strategy]
    if layout.workers == 0:
        raise PlanError(f"layout '{layout}' has no worker: add a w, e.g. 'pw w w'")
    if facts.has_server and layout.servers == 0:
        raise PlanError(
            f"{spec.strategy} needs a parameter server and layout '{layout}' has none: add a p, e.g. 'pw w'"
        )
    if not facts.has_server and layout.servers:
        raise PlanError(
            f"{spec.strategy} uses no parameter server and layout '{layout}' has one: leave out the p, "
            "or use a named layout, which adapts (cluster, cluster2)"
        )
    if facts.one_worker and layout.workers > 1:
        raise PlanError(f"{spec.strategy} is one worker and layout '{layout}' has {layout.workers}: use layout single")
