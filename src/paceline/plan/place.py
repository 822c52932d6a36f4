"""Plan a run: place its tasks on hosts, and refuse every combination of options that cannot work.

Planning is pure: it reads only the spec and the catalog.
"""

from collections.abc import Collection
from difflib import get_close_matches

import msgspec

from paceline import units
from paceline.errors import PlanError, unknown
from paceline.plan.catalog import Catalog, HostKindFacts, WorkloadFacts
from paceline.plan.faults import check_faults
from paceline.plan.hosts import hosts_of
from paceline.plan.layout import Layout, TaskPlace, resolve
from paceline.plan.limits import HostLimits, limits
from paceline.plan.listeners import check_ports, check_trust, trusted_network
from paceline.plan.optimizer import plan_optimizer
from paceline.plan.roles import SERVER, WORKER
from paceline.plan.strategy_options import check_strategy_options
from paceline.spec.experiment import DEFAULTS
from paceline.spec.optimizer import Optimizer
from paceline.spec.run_options import RunSpec
from paceline.spec.stop import TARGETS, WORK, StopRule, limiting_rule
from paceline.strategies.descriptor import Strategy

DEFAULT_EVAL_EVERY = 100
"""Updates between evaluations if a stop rule needs loss or accuracy."""

LARGEST_DEFAULT_HEAP_GIB = 4
"""No driver gets a larger heap unless the user asks for it."""
_SCRIPT_RULES = ("steps", "seconds")
"""The stop rules that can end a user's script."""

DEFAULT_TIME_LIMIT_S = 3600.0
"""The time limit of a run that only a loss or accuracy can end, which it may never reach."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that can be started: its options, and where each task runs."""

    spec: RunSpec
    size: str
    layout: Layout
    places: tuple[TaskPlace, ...]
    strategy: Strategy
    updates_per_epoch: int
    update_limit: int | None
    """Updates after which the run ends at the latest; None if only time, loss or accuracy ends it."""
    eval_every: int | None
    """Updates between evaluations; None means only at the end."""
    optimizer: Optimizer
    time_limit_s: float | None = None
    """Seconds of training after which the run ends as failed; None: no limit."""
    transport: str | None = None
    """How tasks exchange values: memory or tcp; None if the engine offers no choice."""
    limits: tuple[HostLimits, ...] = ()
    """The limits of each host, in the order of the layout."""
    trains: bool = True
    """False for a computation that is not training: it has no examples and no batches."""
    shares_one_machine: bool = False
    """Whether the tasks of all hosts compete for the cores and the memory of one machine."""
    shares_filesystem: bool = False
    """Whether the agents of all hosts can write into the run directory."""
    has_links: bool = False
    """Whether each host has a network link of its own."""
    trusted_network: bool = False
    """Whether only trusted users can reach the network between the hosts."""

    @property
    def title(self) -> str:
        return f"{self.spec.workload}:{self.size}" if self.size else self.spec.workload

    @property
    def step_gives(self) -> str:
        """The name of the number that a step computes."""
        return "loss" if self.trains else "value"

    @property
    def gradients_per_update(self) -> int:
        return self.strategy.gradients_per_update(len(self.workers), self.spec.backup)

    @property
    def is_script(self) -> bool:
        """Whether its tasks are processes of a user's script."""
        return self.spec.is_script

    @property
    def workers(self) -> tuple[TaskPlace, ...]:
        return tuple(place for place in self.places if place.role == WORKER)

    @property
    def servers(self) -> tuple[TaskPlace, ...]:
        return tuple(place for place in self.places if place.role == SERVER)


def place(spec: RunSpec, catalog: Catalog) -> RunPlan:
    """The plan of one run; PlanError if the run cannot work."""
    _check_names(spec, catalog)
    kind = hosts_of(spec, catalog)
    size, workload = _choose_size(spec, catalog)
    strategy = catalog.strategies[spec.strategy]
    layout = resolve(
        spec.layout or ("single" if strategy.single_worker or workload.script else "cluster"),
        needs_server=strategy.has_servers,
    )
    _check_layout(strategy, layout)
    _check_backup(spec, layout, catalog)
    trusted = trusted_network(spec, catalog, kind)
    check_trust(spec, catalog, workload, trusted=trusted)
    check_ports(spec, catalog, workload)
    updates_per_epoch = _updates_per_epoch(spec, workload, layout, strategy)
    limiting = limiting_rule(spec.stop, updates_per_epoch)
    limit = limiting[0] if limiting else None
    if not strategy.synchronous and limit is not None and limit < layout.workers:
        raise PlanError(
            f"a run of {limit} updates leaves some of {layout.workers} workers without a step: use a higher stop rule"
        )
    places = layout.places()
    check_faults(spec, places, limit)
    return RunPlan(
        spec=spec,
        size=size,
        layout=layout,
        places=places,
        strategy=strategy,
        updates_per_epoch=updates_per_epoch,
        update_limit=limit,
        eval_every=_eval_every(spec, strategy),
        optimizer=plan_optimizer(spec, workload, catalog, layout, last_update=limit),
        time_limit_s=time_limit_s(spec),
        transport=_transport(spec, workload, catalog, kind),
        limits=limits(spec, layout),
        trains=workload.trains,
        shares_one_machine=kind.shares_one_machine,
        shares_filesystem=kind.shares_filesystem,
        has_links=kind.has_links,
        trusted_network=trusted,
    )


def with_only_engine(spec: RunSpec, catalog: Catalog) -> RunSpec:
    """The same run on the only engine that its workload runs on; unchanged if there are several, or none."""
    sizes = catalog.workloads.get(spec.workload, {})
    workload = next(iter(sizes.values()), None) if spec.size is None else sizes.get(spec.size)
    if workload is None or len(workload.engines) != 1:
        return spec
    (engine,) = workload.engines
    return msgspec.structs.replace(spec, engine=engine)


def _check_names(spec: RunSpec, catalog: Catalog) -> None:
    if spec.workload not in catalog.workloads:
        raise PlanError(unknown("workload", spec.workload, catalog.workloads))
    if spec.engine in catalog.broken_engines:
        raise PlanError(f"engine {spec.engine} cannot be loaded: {catalog.broken_engines[spec.engine]}")
    if spec.engine not in catalog.engines:
        raise PlanError(unknown("engine", spec.engine, catalog.engines))
    if spec.strategy in catalog.broken_strategies:
        raise PlanError(f"strategy {spec.strategy} cannot be loaded: {catalog.broken_strategies[spec.strategy]}")
    if spec.strategy not in catalog.strategies:
        raise PlanError(unknown("strategy", spec.strategy, catalog.strategies))
    engine = catalog.engines[spec.engine]
    if spec.strategy not in engine.strategies:
        raise PlanError(
            f"engine {spec.engine} has no strategy {spec.strategy}: choose from {', '.join(sorted(engine.strategies))}"
        )
    if not engine.installed:
        raise PlanError(f"engine {spec.engine} is not installed: {engine.install_hint}")
    for option in sorted({option for facts in catalog.engines.values() for option in facts.options}):
        if getattr(spec, option) is not None and option not in engine.options:
            able = " or ".join(name for name, facts in catalog.engines.items() if option in facts.options)
            raise PlanError(f"engine {spec.engine} has no option {option}: remove it, or use --engine {able}")
    check_strategy_options(spec, catalog.strategies)


def _choose_size(spec: RunSpec, catalog: Catalog) -> tuple[str, WorkloadFacts]:
    sizes = catalog.workloads[spec.workload]
    if spec.size is not None and spec.size not in sizes:
        if set(sizes) == {""}:
            raise PlanError(f"{spec.workload} has only one size: remove --size {spec.size}")
        raise PlanError(unknown(f"size of {spec.workload}", spec.size, sizes))
    size = next(iter(sizes)) if spec.size is None else spec.size
    workload, title = sizes[size], f"{spec.workload}:{size}".rstrip(":")
    if spec.engine not in workload.engines:
        why = f" ({spec.engine} {workload.why_not[spec.engine]})" if spec.engine in workload.why_not else ""
        able = ", ".join(sorted(workload.engines))
        raise PlanError(f"{title} does not run on engine {spec.engine}: use {able}{why}")
    if workload.script:
        _check_script_rules(spec)
        return size, workload
    evaluated = next((rule.kind for rule in spec.stop if rule.needs_evaluations), None)
    if not workload.trains and evaluated:
        raise PlanError(f"{title} is not training and has no loss or accuracy: use a stop rule of steps or seconds")
    _check_targets(spec, workload, title)
    if not workload.has_test and evaluated:
        raise PlanError(f"{title} has no test set for a stop rule of {evaluated}: add a test set, or stop at steps")
    if spec.compress is not None and workload.by_rows:
        raise PlanError(f"{title} exchanges only the rows that a batch uses: remove compress")
    if spec.compress is not None and not workload.trains:
        raise PlanError(f"{title} is not training and exchanges no gradients: remove compress")
    _check_training(spec, workload, title)
    if workload.fixed_examples and spec.examples is not None:
        raise PlanError(f"{title} provides its own examples: remove --examples, and limit them in the workload")
    if spec.eval_by == "workers" and not catalog.strategies[spec.strategy].workers_evaluate:
        raise PlanError(f"with {spec.strategy} only the driver has the parameters: remove eval_by=workers")
    if catalog.strategies[spec.strategy].linear_models_only and not workload.linear:
        raise PlanError(
            f"{title} does not support strategy {spec.strategy}: it trains only models of one linear layer, such as "
            "softmax regression"
        )
    if reason := catalog.strategies[spec.strategy].reason_against(workload.refused):
        raise PlanError(f"{title} does not support strategy {spec.strategy}: {reason}")
    needed = catalog.strategies[spec.strategy].driver_memory_gib(workload.parameters)
    if needed > LARGEST_DEFAULT_HEAP_GIB and spec.driver_memory is None:
        raise PlanError(
            f"{spec.strategy} on {title} needs about {needed} GiB in the driver: add --set driver_memory={needed + 2}g"
        )
    return size, workload


def _check_training(spec: RunSpec, workload: WorkloadFacts, title: str) -> None:
    """Refuse options that change the model or the order of the examples where they would have no effect."""
    if spec.init is not None and not workload.has_layers:
        raise PlanError(f"{title} has no layers whose initial weights could be chosen: remove init")
    if spec.activation is not None and not workload.has_activation:
        raise PlanError(f"{title} has no activation that could be changed: remove activation")
    ordered = {"shard": spec.shard, "shuffle": spec.shuffle, "steps_per_epoch": spec.steps_per_epoch}
    changed = [name for name, value in ordered.items() if value != DEFAULTS[name]]
    if changed and not workload.takes_order:
        raise PlanError(f"{title} decides itself in which order it reads its examples: remove {changed[0]}")
    if spec.histograms and not workload.trains:
        raise PlanError(f"{title} is not training and has no parameters: remove histograms")


def _eval_every(spec: RunSpec, strategy: Strategy) -> int | None:
    """Updates between evaluations; None: only at the end; 0: never."""
    evaluated = next((rule for rule in spec.stop if rule.needs_evaluations), None)
    if spec.eval_every == 0 and evaluated:
        raise PlanError(f"the stop rule '{evaluated}' needs evaluations: remove --eval-every 0")
    if spec.eval_every is not None or not evaluated:
        return spec.eval_every
    return strategy.eval_every or DEFAULT_EVAL_EVERY


def _check_targets(spec: RunSpec, workload: WorkloadFacts, title: str) -> None:
    """Refuse a stop rule of a metric that the workload does not have."""
    metrics = {"loss", *workload.metrics}
    for rule in spec.stop:
        if not rule.is_target or rule.kind in metrics:
            continue
        if rule.kind not in TARGETS:
            _refuse_rule(rule, metrics, title)
        if not workload.evaluates_itself:
            able = " or ".join(["loss", *sorted(workload.metrics)])
            raise PlanError(f"{title} has no {rule.kind}: use a stop rule of {able} instead")


def _refuse_rule(rule: StopRule, metrics: Collection[str], title: str) -> None:
    """Refuse a rule that is neither one of Paceline nor a metric that the workload declares."""
    near = get_close_matches(rule.kind, (*WORK, *sorted(metrics)), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise PlanError(
        f"unknown stop rule '{rule.kind}': {hint}{title} has {', '.join((*WORK, *sorted(metrics)))}; a workload "
        "declares other metrics with Metric(name, better)"
    )


def _check_script_rules(spec: RunSpec) -> None:
    for rule in spec.stop:
        if rule.kind not in _SCRIPT_RULES:
            raise PlanError(
                f"stop rule '{rule}': Paceline does not know the {rule.kind} of a script: use steps=N or seconds=N, or "
                "let the script end by itself"
            )


def time_limit_s(spec: RunSpec) -> float | None:
    """Seconds of training after which a run that has met no stop rule ends; None without a limit."""
    if spec.time_limit is not None:
        return units.time_limit(spec.time_limit)
    return DEFAULT_TIME_LIMIT_S if spec.stop and all(rule.is_target for rule in spec.stop) else None


def _transport(spec: RunSpec, workload: WorkloadFacts, catalog: Catalog, kind: HostKindFacts) -> str | None:
    strategy = catalog.strategies[spec.strategy]
    shares = workload.trains and catalog.engines[spec.engine].shares_memory and strategy.shares_memory
    if strategy.single_worker or not shares:
        if spec.transport is not None:
            raise PlanError(f"engine {spec.engine} has no choice of transport with {spec.strategy}: remove transport")
        return None
    if spec.compress is not None:
        if spec.transport == "memory":
            raise PlanError("values in shared memory are not compressed: remove transport, or use transport=tcp")
        return "tcp"
    if spec.transport == "memory" and not kind.shares_memory:
        raise PlanError(f"hosts {spec.hosts} share no memory: remove transport, or use transport=tcp")
    return spec.transport or ("memory" if kind.shares_memory else "tcp")


def _updates_per_epoch(spec: RunSpec, workload: WorkloadFacts, layout: Layout, strategy: Strategy) -> int:
    examples = _examples(spec, workload)
    if not workload.trains or workload.script:
        return 1  # The whole computation counts as one epoch.
    shard = examples // layout.workers
    if spec.batch > shard:
        raise PlanError(
            f"batch {spec.batch} is larger than a worker's shard of {shard} examples "
            f"({examples} over {layout.workers} workers): use a smaller batch or fewer workers"
        )
    if strategy.whole_data:
        return 1
    steps = spec.steps_per_epoch or examples // (spec.batch * layout.workers)
    return steps if strategy.synchronous else steps * layout.workers


def _examples(spec: RunSpec, workload: WorkloadFacts) -> int:
    if spec.examples is not None and not workload.trains:
        raise PlanError(f"{spec.workload} is not training and has no examples: remove --examples")
    most = workload.largest_examples or workload.train_examples
    if spec.examples is not None and spec.examples > most:
        what = "ten times the size" if workload.largest_examples else "the size"
        raise PlanError(
            f"examples {spec.examples}: must be at most {most:,}, {what} of the training set of {spec.workload}"
        )
    return spec.examples or workload.train_examples


def _check_backup(spec: RunSpec, layout: Layout, catalog: Catalog) -> None:
    if not spec.backup:
        return
    supported = (
        catalog.strategies[spec.strategy].can_leave_out_slow_workers
        and catalog.engines[spec.engine].drops_late_gradients
    )
    if not supported:
        engines = " or ".join(name for name, engine in catalog.engines.items() if engine.drops_late_gradients)
        strategies = " or ".join(name for name, s in catalog.strategies.items() if s.can_leave_out_slow_workers)
        raise PlanError(
            f"--backup works only with {strategies} on engine {engines}: remove it for {spec.strategy} on {spec.engine}"
        )
    if spec.backup >= layout.workers:
        raise PlanError(f"--backup {spec.backup}: must be below the number of workers, {layout.workers}")


def _check_layout(strategy: Strategy, layout: Layout) -> None:
    if layout.workers == 0:
        raise PlanError(f"layout '{layout}' has no worker: add a w, e.g. 'pw w w'")
    if strategy.has_servers and layout.servers == 0:
        raise PlanError(
            f"{strategy.name} needs a parameter server, but layout '{layout}' has none: add a p, e.g. 'pw w'"
        )
    if strategy.one_server and layout.servers > 1:
        raise PlanError(
            f"{strategy.name} has one {strategy.server_is}, but layout '{layout}' has {layout.servers} letters p: "
            "leave one"
        )
    if not strategy.has_servers and layout.servers:
        raise PlanError(
            f"{strategy.name} uses no parameter server, but layout '{layout}' has one: remove the p, "
            "or use layout single, cluster or cluster2, which adapt to the strategy"
        )
    if strategy.single_worker and layout.workers > 1:
        raise PlanError(
            f"{strategy.name} has one worker, but layout '{layout}' has {layout.workers}: use layout single"
        )
