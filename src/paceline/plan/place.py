"""RunSpec -> RunPlan: tasks placed on hosts, with every impossible combination refused. Pure."""

import msgspec

from paceline.errors import PlanError, unknown
from paceline.plan.catalog import Catalog, WorkloadFacts
from paceline.plan.faults import check_faults
from paceline.plan.layout import Layout, TaskPlace, resolve
from paceline.plan.limits import HostLimits, limits
from paceline.spec.experiment import RunSpec
from paceline.spec.stop import limiting_rule
from paceline.strategies.descriptor import Strategy

DEFAULT_EVAL_EVERY = 100


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run, ready to start."""

    spec: RunSpec
    size: str
    layout: Layout
    places: tuple[TaskPlace, ...]
    strategy: Strategy
    updates_per_epoch: int
    update_limit: int | None
    """Updates after which the run ends at the latest; None if only time or quality ends it."""
    eval_every: int | None
    """Updates between evaluations; None is only at the end."""
    transport: str | None = None
    """How tasks pass values, where there is a choice: memory or tcp."""
    limits: tuple[HostLimits, ...] = ()
    """Of each host."""
    trains: bool = True
    """False: what is computed has no examples, and so no batches."""

    @property
    def title(self) -> str:
        return f"{self.spec.workload}:{self.size}" if self.size else self.spec.workload

    @property
    def step_gives(self) -> str:
        """What the number is called that a step comes to."""
        return "loss" if self.trains else "value"

    @property
    def workers(self) -> tuple[TaskPlace, ...]:
        return tuple(place for place in self.places if place.role == "w")

    @property
    def servers(self) -> tuple[TaskPlace, ...]:
        return tuple(place for place in self.places if place.role == "ps")


def place(spec: RunSpec, catalog: Catalog) -> RunPlan:
    """The plan of one run; PlanError, in one line, if it cannot work."""
    _known(spec, catalog)
    size, workload = _sized(spec, catalog)
    strategy = catalog.strategies[spec.strategy]
    layout = resolve(
        spec.layout or ("single" if strategy.single_worker else "cluster"), needs_server=strategy.has_servers
    )
    _fits(strategy, layout)
    _may_drop(spec, layout, catalog)
    updates_per_epoch = _updates_per_epoch(spec, workload, layout, strategy)
    limited = limiting_rule(spec.stop, updates_per_epoch)
    limit = limited[0] if limited else None
    if not strategy.synchronous and limit is not None and limit < layout.workers:
        raise PlanError(f"{limit} updates over {layout.workers} workers leave some without a step: ask for more")
    places = layout.places()
    check_faults(spec, places, limit)
    wants_quality = any(rule.kind in ("loss", "accuracy") for rule in spec.stop)
    return RunPlan(
        spec=spec,
        size=size,
        layout=layout,
        places=places,
        strategy=strategy,
        updates_per_epoch=updates_per_epoch,
        update_limit=limit,
        eval_every=spec.eval_every or (DEFAULT_EVAL_EVERY if wants_quality else None),
        transport=_transport(spec, workload, catalog),
        limits=limits(spec, layout),
        trains=workload.trains,
    )


def _known(spec: RunSpec, catalog: Catalog) -> None:
    if spec.workload not in catalog.workloads:
        raise PlanError(unknown("workload", spec.workload, catalog.workloads))
    if spec.engine not in catalog.engines:
        raise PlanError(unknown("engine", spec.engine, catalog.engines))
    if spec.strategy not in catalog.strategies:
        raise PlanError(unknown("strategy", spec.strategy, catalog.strategies))
    if spec.hosts not in catalog.hosts:
        raise PlanError(unknown("kind of hosts", spec.hosts, catalog.hosts))
    engine = catalog.engines[spec.engine]
    if spec.strategy not in engine.strategies:
        raise PlanError(f"engine {spec.engine} has no {spec.strategy}: it has {', '.join(sorted(engine.strategies))}")
    if not engine.installed:
        raise PlanError(f"engine {spec.engine} is not installed: {engine.install_hint}")


def _sized(spec: RunSpec, catalog: Catalog) -> tuple[str, WorkloadFacts]:
    sizes = catalog.workloads[spec.workload]
    if spec.size is not None and spec.size not in sizes:
        if set(sizes) == {""}:
            raise PlanError(f"{spec.workload} has one size only: leave out --size {spec.size}")
        raise PlanError(unknown(f"size of {spec.workload}", spec.size, sizes))
    size = next(iter(sizes)) if spec.size is None else spec.size
    workload, title = sizes[size], f"{spec.workload}:{size}".rstrip(":")
    if spec.engine not in workload.engines:
        raise PlanError(f"{title} does not run on engine {spec.engine}: use {', '.join(sorted(workload.engines))}")
    if not workload.trains and any(rule.kind in ("loss", "accuracy") for rule in spec.stop):
        raise PlanError(f"{title} trains nothing and has no quality to stop at: stop at steps or seconds")
    if not workload.has_test and any(rule.kind in ("loss", "accuracy") for rule in spec.stop):
        raise PlanError(f"{title} has no test set to measure loss and accuracy on: give it one, or stop at steps")
    if not workload.takes_momentum and spec.momentum:
        raise PlanError(f"{title} moves only the weights a batch touches, and momentum needs all: leave it out")
    if workload.fixed_examples and spec.examples is not None:
        raise PlanError(f"{title} brings its own examples: cut them there and leave out --examples")
    if not workload.has_accuracy and any(rule.kind == "accuracy" for rule in spec.stop):
        raise PlanError(f"{title} has no accuracy to stop at: stop at a loss")
    if reason := catalog.strategies[spec.strategy].reason_against(workload.refused):
        raise PlanError(f"{title} makes no sense with {spec.strategy}: {reason}")
    return size, workload


def _transport(spec: RunSpec, workload: WorkloadFacts, catalog: Catalog) -> str | None:
    shares = workload.trains and catalog.engines[spec.engine].shares_memory
    if catalog.strategies[spec.strategy].single_worker or not shares:
        if spec.transport is not None:
            raise PlanError(f"there is no choice of transport with {spec.engine} and {spec.strategy}: leave it out")
        return None
    share_memory = catalog.hosts[spec.hosts].shares_memory
    if spec.transport == "memory" and not share_memory:
        raise PlanError(f"hosts {spec.hosts} share no memory: leave out transport, or use tcp")
    return spec.transport or ("memory" if share_memory else "tcp")


def _updates_per_epoch(spec: RunSpec, workload: WorkloadFacts, layout: Layout, strategy: Strategy) -> int:
    examples = _examples(spec, workload)
    if not workload.trains:
        return 1  # To go through everything once is to compute it once.
    shard = examples // layout.workers
    if spec.batch > shard:
        raise PlanError(
            f"batch {spec.batch} is larger than a worker's shard of {shard} examples "
            f"({examples} over {layout.workers} workers): use a smaller batch or fewer workers"
        )
    steps = examples // (spec.batch * layout.workers)
    return steps if strategy.synchronous else steps * layout.workers


def _examples(spec: RunSpec, workload: WorkloadFacts) -> int:
    there_are = workload.train_examples
    if spec.examples is not None and spec.examples > there_are:
        raise PlanError(f"examples {spec.examples}: {spec.workload} has {there_are:,}")
    return spec.examples or there_are


def _may_drop(spec: RunSpec, layout: Layout, catalog: Catalog) -> None:
    if not spec.backup:
        return
    able = catalog.strategies[spec.strategy].can_leave_out_slow_workers and catalog.engines[spec.engine].drops_late
    if not able:
        engines = " or ".join(name for name, engine in catalog.engines.items() if engine.drops_late)
        strategies = " or ".join(name for name, one in catalog.strategies.items() if one.can_leave_out_slow_workers)
        raise PlanError(
            f"--backup is for {strategies} on engine {engines}: leave it out with {spec.strategy} on {spec.engine}"
        )
    if spec.backup >= layout.workers:
        raise PlanError(f"--backup {spec.backup} leaves no worker of {layout.workers} to wait for: use fewer")


def _fits(strategy: Strategy, layout: Layout) -> None:
    if layout.workers == 0:
        raise PlanError(f"layout '{layout}' has no worker: add a w, e.g. 'pw w w'")
    if strategy.has_servers and layout.servers == 0:
        raise PlanError(
            f"{strategy.name} needs a parameter server and layout '{layout}' has none: add a p, e.g. 'pw w'"
        )
    if not strategy.has_servers and layout.servers:
        raise PlanError(
            f"{strategy.name} uses no parameter server and layout '{layout}' has one: leave out the p, "
            "or use a named layout, which adapts (cluster, cluster2)"
        )
    if strategy.single_worker and layout.workers > 1:
        raise PlanError(f"{strategy.name} is one worker and layout '{layout}' has {layout.workers}: use layout single")
