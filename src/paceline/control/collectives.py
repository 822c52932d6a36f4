"""Measures collective operations between the hosts of a plan, with tasks that its agents start, as in a run."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from paceline import messages
from paceline.control.cluster import AgentClosed, Cluster
from paceline.control.execute import host_requests
from paceline.control.job_factory import JobFactory, JobStart
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.errors import RunError
from paceline.hosts.base import Host, HostProvider
from paceline.plan.place import RunPlan
from paceline.plan.roles import WORKER
from paceline.store.header import ResumePoint
from paceline.train.collectives import Measurement, Order, Times, measurements
from paceline.train.context import Job, Outcome
from paceline.workloads.registry import WORKLOADS

_Kind = TypeVar("_Kind", bound=msgspec.Struct)
_SILENCE_S = 600.0
"""The measurement fails if no task reports anything for this long."""
_LEASE_S = 60.0
_PING_EVERY_S = 5.0
_NO_DATA = PreparedData(paths=(), source="", synthetic=True)
_VECTORS = 5
"""How many vectors of the largest size a host needs: those of a worker and of the server, and messages under way."""


def measure_collectives(plan: RunPlan, provider: HostProvider, order: Order, scratch: Path) -> list[Measurement]:
    """The measurements among the workers of a plan with one server; RunError if a task or an agent fails."""
    with provider.open(f"collectives-{secrets.token_hex(3)}", host_requests(plan)) as hosts:
        cluster = Cluster(hosts, scratch, None, messages.Setup("", sample_hz=0, lease_s=_LEASE_S))
        try:
            return _Tasks(plan, hosts, cluster, order).measure()
        finally:
            cluster.close()


class _Tasks:
    """The tasks of one measurement, from their start until all have reported."""

    def __init__(self, plan: RunPlan, hosts: Sequence[Host], cluster: Cluster, order: Order) -> None:
        self._plan, self._cluster, self._order = plan, cluster, order
        self._engine = engines()[plan.spec.engine]
        self._hosts = {host.name: host for host in hosts}
        self._jobs = JobFactory(plan, _NO_DATA, "collectives", self._hosts, frozenset())
        self._places = {place.task: place for place in plan.places}

    def measure(self) -> list[Measurement]:
        hellos = self._collect(messages.Hello, len(self._hosts))
        for host, hello in hellos.items():
            self._jobs.cores[host], self._jobs.memory_bytes[host] = hello.cores, hello.memory_bytes
        self._check_memory(hellos)
        for task, place in self._places.items():
            job = msgspec.Raw(msgspec.msgpack.encode(self._job(task)))
            self._cluster.send(place.host, messages.StartTask(task, job, dict(self._engine.environment)))
        bound = self._collect(messages.Bound, len(self._places))
        self._send_to_all(messages.Peers({task: self._addresses(task) | one.addresses for task, one in bound.items()}))
        self._collect(messages.Ready, len(self._places))
        self._send_to_all(messages.Go())
        finished = self._collect(messages.Finished, len(self._places))
        outcomes = {task: msgspec.msgpack.decode(one.outcome, type=Outcome) for task, one in finished.items()}
        workers = [task for task, place in self._places.items() if place.role == WORKER]
        return measurements([msgspec.json.decode(str(outcomes[task].details["times"]), type=Times) for task in workers])

    def _job(self, task: str) -> Job:
        """The job of a run, with the measurement as its work and without data."""
        job = self._jobs.job(task, JobStart(point=ResumePoint()))
        untrained = next(work for sizes in WORKLOADS.values() for work in sizes.values() if work.blocks)
        return msgspec.structs.replace(
            job,
            entry_point=self._engine.collectives[self._places[task].role],
            workload=untrained.name,
            size=untrained.size,
            options=self._order.as_options(),
            transport="tcp",
            record=False,
        )

    def _addresses(self, task: str) -> dict[str, str]:
        host = self._places[task].host
        return {messages.HOST: self._hosts[host].address, messages.HOST_NAME: host}

    def _check_memory(self, hellos: dict[str, messages.Hello]) -> None:
        """Refuse a size for which a machine has too little free memory."""
        on_machine = len(self._hosts) if self._plan.shares_one_machine else 1
        needed = _VECTORS * on_machine * max(self._order.sizes)
        for host, hello in hellos.items():
            free = hello.memory_bytes if hello.free_memory_bytes is None else hello.free_memory_bytes
            if needed > free:
                raise RunError(
                    f"{host} has {free / 1e6:,.0f} MB of free memory, but vectors of {max(self._order.sizes) / 1e6:,g} "
                    f"MB need about {needed / 1e6:,.0f} MB there: use a smaller --max-size or fewer workers"
                )

    def _send_to_all(self, message: messages.ToTask) -> None:
        for task, place in self._places.items():
            self._cluster.send(place.host, messages.SendToTask(task, message))

    def _collect(self, kind: type[_Kind], count: int) -> dict[str, _Kind]:
        """A message of this kind from each task, or from each agent."""
        found: dict[str, _Kind] = {}
        deadline = time.monotonic() + _SILENCE_S
        while len(found) < count:
            received = self._cluster.next(timeout_s=_PING_EVERY_S)
            if received is None:
                self._cluster.ping()
                if time.monotonic() > deadline:
                    raise RunError(f"no task has reported anything for {_SILENCE_S:.0f} s")
                continue
            if isinstance(received, AgentClosed):
                raise RunError(f"lost the agent of {received.host}: {received.detail}")
            match received.message:
                case messages.TaskMessage(task, messages.Failed(line, _)):
                    raise RunError(f"{task} on {received.host} failed: {line}")
                case messages.TaskExited(task, code) if code:
                    raise RunError(f"{task} on {received.host} ended with code {code}")
                case messages.TaskMessage(task, message) if isinstance(message, kind):
                    found[task] = message
                case message if isinstance(message, kind):
                    found[received.host] = message
        return found
