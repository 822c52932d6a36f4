"""Hosts that are nodes of a Ray cluster: an actor on each node starts the agent and relays its streams."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paceline.errors import HostError, RunError
from paceline.hosts.base import AgentPipes, Condition, Host, HostProvider, HostRequest
from paceline.hosts.child_agent import agent_arguments
from paceline.hosts.prepare import Shell
from paceline.hosts.ray.address import RayAddress, parse_address
from paceline.hosts.ray.node_agent import NodeAgent
from paceline.hosts.ray.relay import RelayedAgent
from paceline.hosts.ray.session import connect, require_ray
from paceline.ports import PortRange

_PLACE_S = 60.0
"""How long the cluster may take to reserve the nodes; an autoscaler may be adding some."""
_END_S = 5.0
_BUNDLE = {"CPU": 1}
"""What is reserved on each node: enough that Ray starts the actor there."""
_DIRECTIONS = 2
"""Calls of an actor at the same time: one that waits for output, and one with input. The relay makes no more, so no
concurrency groups are needed, which Ray Client does not offer for a single call."""


class Actor:
    """Implements relay.AgentActor."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self._ray, self._handle = ray, handle

    def call(self, method: str, *arguments: Any) -> "Future[Any]":
        future: Future[Any] = getattr(self._handle, method).remote(*arguments).future()
        return future

    def end(self) -> None:
        self._ray.kill(self._handle)


class RayHost:
    ports: PortRange | None = None

    def __init__(self, name: str, address: str, ray: Any, strategy: Any) -> None:
        """`strategy` is the scheduling strategy that places an actor on this node."""
        self.name, self.address = name, address
        self._ray, self._strategy = ray, strategy
        self._agents: list[RelayedAgent] = []

    def start_agent(self, log: Path) -> AgentPipes:
        """Start the agent without waiting for it. Why it did not start is the last line of the log."""
        make_actor = self._ray.remote(num_cpus=1, max_restarts=0, max_concurrency=_DIRECTIONS)(NodeAgent)
        handle = make_actor.options(scheduling_strategy=self._strategy).remote()
        agent = RelayedAgent(Actor(self._ray, handle), agent_arguments(self.name, network="host"), log)
        self._agents.append(agent)
        return agent

    def apply_condition(self, condition: Condition) -> None:
        raise RunError(f"{self.name} is a node of a Ray cluster: its link and its cores cannot be changed from here")

    def close(self) -> None:
        """End all agents that were started here, so that no thread uses Ray any more."""
        for agent in self._agents:
            agent.kill()
        for agent in self._agents:
            agent.wait(_END_S)


class RayHosts(HostProvider):
    def __init__(self, argument: str | None = None) -> None:
        self._address = parse_address(argument)

    def check(self, requests: Sequence[HostRequest]) -> None:
        """Does not connect, which takes seconds: `open` says whether the cluster has these nodes."""
        require_ray()

    def machines(self) -> list[str]:
        with connect(self._address, "paceline-nodes") as ray:
            return sorted(str(node["NodeManagerAddress"]) for node in _usable(ray.nodes()))

    def shells(self) -> Sequence[Shell]:
        raise HostError(
            "Paceline's own code is sent to the nodes of a Ray cluster in each run: install what it needs, and the "
            "engine, in the image or the environment of the cluster"
        )

    @contextmanager
    def open(self, token: str, requests: Sequence[HostRequest]) -> Iterator[list[Host]]:
        with (
            connect(self._address, f"paceline-{token}") as ray,
            _placed(ray, self._address, f"paceline-{token}", len(requests)) as group,
        ):
            hosts = _hosts(ray, group, [request.name for request in requests])
            try:
                yield [*hosts]
            finally:
                for host in hosts:
                    host.close()


@contextmanager
def _placed(ray: Any, address: RayAddress, name: str, count: int) -> Iterator[Any]:
    """A placement group with one bundle on each of `count` nodes; HostError if the cluster cannot place it in time."""
    from ray.util import placement_group, remove_placement_group

    group = placement_group([_BUNDLE] * count, strategy="STRICT_SPREAD", name=name)
    try:
        if not group.wait(_PLACE_S):
            raise HostError(too_few(address.text, count, ray.nodes(), ray.available_resources()))
        yield group
    finally:
        with suppress(Exception):  # The cluster may be gone, and the group with it.
            remove_placement_group(group)


def _hosts(ray: Any, group: Any, names: Sequence[str]) -> list[RayHost]:
    """A host for each bundle of the group, in the order of the nodes' addresses, as in `machines`."""
    from ray.util import placement_group_table
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    addresses = {node["NodeID"]: str(node["NodeManagerAddress"]) for node in ray.nodes()}
    bundles = placement_group_table(group)["bundles_to_node_id"]
    placed = sorted((addresses[node], index) for index, node in bundles.items())
    return [
        RayHost(
            name,
            address,
            ray,
            PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index),
        )
        for name, (address, index) in zip(names, placed, strict=True)
    ]


def too_few(address: str, wanted: int, nodes: Sequence[Mapping[str, Any]], free: Mapping[str, float]) -> str:
    """The error line that lists the nodes and what they have. `nodes` and `free` are as Ray returns them."""
    usable = _usable(nodes)
    described = [f"{node['NodeManagerAddress']} ({_cpus(node):g} CPUs)" for node in nodes if node["Alive"]]
    listed = f"it has {', '.join(described) or 'no node'}; {free.get('CPU', 0.0):g} CPUs are free in all"
    problem = (
        f"the layout has {wanted} hosts, but the Ray cluster at {address} could not reserve 1 CPU on as many nodes"
    )
    remedy = "add nodes, or use a layout with fewer hosts" if len(usable) < wanted else "wait until others have ended"
    return f"{problem} (waited {_PLACE_S:.0f} s): {listed}: {remedy}"


def _usable(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The nodes on which a host can be placed."""
    return [node for node in nodes if node["Alive"] and _cpus(node) >= _BUNDLE["CPU"]]


def _cpus(node: Mapping[str, Any]) -> float:
    return float(node["Resources"].get("CPU", 0.0))
