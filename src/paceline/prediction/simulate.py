"""Simulates a configuration and returns its throughput, and the facts from which its bottleneck is named."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec

from paceline.analyze.bottleneck.facts import Facts, HostFacts, LinkFacts, Phases, ServerFacts, TaskUse, WorkerFacts
from paceline.entry_points import load_object
from paceline.errors import PredictError
from paceline.prediction.cluster import Cluster, Setup, StepTimes
from paceline.prediction.costs import Costs
from paceline.strategies.descriptor import Strategy

SHARE_SPREAD = 0.5
"""By how much the shares of TCP connections on one link differ (standard deviation of the logarithm)."""
SIMULATED_STEPS = 120
"""A simulation ends when every worker has made this many steps on average, or after `_LONGEST_S`."""
_FEWEST_STEPS, _EVENTS_PER_STEP = 15, 100
"""With many workers a step has many events: then fewer steps are simulated, but not fewer than the fewest."""
_LONGEST_S = 30.0
_FIRST_SLICE_S, _SLICE_GROWTH = 0.1, 1.15
"""It is simulated to this time, and then to times that grow by this factor, until there are enough steps."""

Protocol = Callable[[Cluster], None]


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one simulation."""

    updates_per_s: float
    examples_per_s: float
    seconds: float
    facts: Facts


def protocol_of(strategy: Strategy) -> Protocol:
    """The function that simulates the strategy; PredictError if it has none."""
    if strategy.protocol is None:
        raise PredictError(
            f"strategy {strategy.name} cannot be predicted: its descriptor names no protocol; measure it with "
            "paceline run"
        )
    protocol: Protocol = load_object(strategy.protocol)
    return protocol


def simulate(
    setup: Setup, costs: Costs, seed: int, *, worker_spread: float = 0.0, steps: int = SIMULATED_STEPS
) -> Simulated:
    """Simulate until every worker has made some hundred steps; equal arguments give equal results."""
    cluster = Cluster(setup, costs, seed, share_spread=SHARE_SPREAD, worker_spread=worker_spread)
    protocol_of(setup.strategy)(cluster)
    simulation, until = cluster.simulation, _FIRST_SLICE_S
    while _needs_more(cluster, steps) and simulation.now < _LONGEST_S:
        simulation.run(until)
        until *= _SLICE_GROWTH
    # The first steps are not typical: all workers start at once, and links and quotas are full.
    warm_up_s = cluster.steps[len(cluster.steps) // 10].end if len(cluster.steps) > 10 * setup.workers else 0.0
    updates_per_s = _rate([at for at in cluster.updates if at >= warm_up_s])
    steps_per_s = _rate([step.end for step in cluster.steps if step.end >= warm_up_s])
    return Simulated(
        updates_per_s=updates_per_s,
        examples_per_s=steps_per_s * setup.batch,
        seconds=simulation.now,
        facts=_facts(cluster),
    )


def _rate(times: Sequence[float]) -> float:
    """Events per second between the first and the last of them, which all come in order."""
    return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else 0.0


def _needs_more(cluster: Cluster, steps: int) -> bool:
    made = len(cluster.steps) / cluster.setup.workers
    return made < _FEWEST_STEPS or (made < steps and cluster.simulation.events < _EVENTS_PER_STEP * steps)


def _facts(cluster: Cluster) -> Facts:
    setup, seconds = cluster.setup, cluster.simulation.now
    shared = len(set(setup.machine_of.values())) == 1
    uses = _uses(cluster)
    return Facts(
        synchronous=setup.strategy.synchronous,
        server_is=setup.strategy.server_is,
        seconds=seconds,
        total_s=seconds,
        workers=tuple(
            WorkerFacts(
                task=worker.name,
                host=worker.host.name,
                steps=len(steps),
                phases=_phases(steps, mixed=setup.strategy.mixed_phase is not None, last=_last_arrivals(cluster)),
                use=uses[worker.name],
                threads=max(1, round(cluster.costs.threads)),
            )
            for worker in cluster.workers
            for steps in ([step for step in cluster.steps if step.task == worker.name],)
        ),
        servers=tuple(_servers(cluster, uses)),
        links=tuple(_links(cluster)),
        hosts=tuple(
            HostFacts(
                host=host,
                tasks=tuple(place.task for place in setup.places if place.host == host),
                cpu_cores=sum(uses[place.task].cpu_cores for place in setup.places if place.host == host),
                cpus=setup.limits[host].cpus if host in setup.limits else None,
                cores=max(1, round(setup.machine_cores[machine])),
            )
            for host, machine in setup.machine_of.items()
        ),
        machine_cores=max(1, round(next(iter(setup.machine_cores.values())))) if shared else 0,
    )


def _uses(cluster: Cluster) -> dict[str, TaskUse]:
    simulation = cluster.simulation
    return {
        place.task: TaskUse(
            cpu_cores=simulation.cpu_s[place.task] / simulation.now,
            run_wait=simulation.core_wait_s[place.task] / simulation.now,
        )
        for place in cluster.setup.places
    }


def _last_arrivals(cluster: Cluster) -> dict[int, float]:
    """For each step number, when the last worker had computed."""
    numbers: Counter[str] = Counter()
    arrivals: dict[int, float] = {}
    for step in cluster.steps:
        number = numbers[step.task]
        numbers[step.task] += 1
        arrivals[number] = max(arrivals.get(number, 0.0), step.computed)
    return arrivals


def _phases(steps: list[StepTimes], *, mixed: bool, last: dict[int, float]) -> Phases:
    """Seconds in each phase; in a mixed phase, the time until the last worker arrived is waiting."""
    compute = sum(step.computed - step.start for step in steps)
    if mixed:
        wait = sum(min(step.end, last[number]) - step.computed for number, step in enumerate(steps))
        return Phases(compute=compute, wait=wait, push=sum(step.end - step.computed for step in steps) - wait)
    return Phases(
        compute=compute,
        push=sum(step.sent - step.computed for step in steps),
        wait=sum(step.waited - step.sent for step in steps),
        pull=sum(step.end - step.waited for step in steps),
    )


def _servers(cluster: Cluster, uses: dict[str, TaskUse]) -> list[ServerFacts]:
    servers = []
    for server in cluster.servers:
        limit = server.host.cpus
        busy = cluster.serving_s.get(server.name, 0.0) / cluster.simulation.now
        if limit:
            busy = max(busy, uses[server.name].cpu_cores / min(limit, server.host.machine.cores))
        servers.append(ServerFacts(task=server.name, host=server.host.name, busy=busy, use=uses[server.name]))
    return servers


def _links(cluster: Cluster) -> list[LinkFacts]:
    seconds, links = cluster.simulation.now, []
    for host, (up, down) in cluster.simulation.links.items():
        if up.rate and down.rate:
            links.append(
                LinkFacts(
                    host=host,
                    outbound_mb_s=up.bytes / seconds / 1e6,
                    inbound_mb_s=down.bytes / seconds / 1e6,
                    outbound_capacity_mb_s=up.rate / 1e6,
                    inbound_capacity_mb_s=down.rate / 1e6,
                    known_from="by --link",
                    fuller_direction=max(fmean((up.busy_s, down.busy_s)), up.busy_s, down.busy_s) / seconds,
                )
            )
    return links
