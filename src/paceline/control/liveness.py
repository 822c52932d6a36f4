"""Detects agents that stop answering and workers that make no progress, and collects the stacks of all tasks then."""

from collections.abc import Iterable

import msgspec
import numpy as np

from paceline import messages
from paceline.control import events as events
from paceline.control import stack_report
from paceline.control.cluster import Cluster
from paceline.control.startup_deadline import stall_limit_s
from paceline.control.watchdog import BUSY_S, Stalled, Watchdog
from paceline.messages.lease import Lease
from paceline.plan.place import RunPlan
from paceline.plan.strategy_options import workers_wait
from paceline.recording.layout import STEP
from paceline.recording.rows import of_kind
from paceline.store.writer import RunWriter

AGENT_TIMEOUT_S = 10.0
AGENT_LEASE_S = 20.0
"""An agent ends itself after this long without a message from the controller. Longer than AGENT_TIMEOUT_S, so that the
controller notices first and can record the reason."""
_PING_EVERY_S = 1.0
_AGENT_QUIET_S = 2.5
"""While any agent has been silent for this long, no task is reported as stuck: its records may be delayed."""
_STACKS_TIMEOUT_S = 3.0


class _StackRequest(msgspec.Struct):
    stalled: Stalled
    deadline_s: float
    stacks: dict[str, messages.Stacks]
    """By task."""


class LivenessMonitor:
    """Is told what agents send; `check` returns the events that the supervisor should handle."""

    def __init__(self, plan: RunPlan, cluster: Cluster, writer: RunWriter, startup_s: float, slowness: float) -> None:
        """`slowness`: multiplies the limit for work between steps; above 1 if a host has less than one core."""
        self._cluster, self._writer, self._records = cluster, writer, plan.spec.record
        self._task_hosts = {place.task: place.host for place in plan.places}
        self._watchdog = _watchdog(plan, startup_s, slowness)
        self._script = plan.is_script
        self._leases: dict[str, Lease] = {}
        self._received: dict[str, int] = {}
        self._ping_due_s = 0.0
        self._exited: set[str] = set()
        self._done: set[str] = set()
        self._missing: set[str] = set()
        """Tasks that exited or disconnected before they finished. Until they rejoin, others may wait for them."""
        self._stack_request: _StackRequest | None = None

    @property
    def first_step_s(self) -> float:
        """How long the first step of a worker may take."""
        return self._watchdog.first_step_s

    @first_step_s.setter
    def first_step_s(self, seconds: float) -> None:
        if not self._script:  # The user says how long a script may take.
            self._watchdog.first_step_s = seconds

    def joined(self, host: str) -> None:
        self._leases[host], self._received[host] = Lease(), self._cluster.received(host)

    def opened(self, tasks: Iterable[str]) -> None:
        """The barrier opened for these tasks, after a start or a restart."""
        for which in (self._exited, self._done, self._missing):
            which.difference_update(tasks)
        # Without step records there is no progress to see.
        if self._records:
            self._watchdog.open(tasks)

    def recorded(self, task: str, records: np.ndarray) -> None:
        steps = of_kind(records, STEP)
        self._watchdog.add_steps(task, (steps["end_ns"] - steps["start_ns"]) / 1e9)

    def busy(self, message: messages.Busy) -> None:
        self._watchdog.busy(message.task, message.activity)

    def done(self, task: str) -> None:
        """The task makes no more steps."""
        self._done.add(task)
        self._watchdog.done(task)

    def exited(self, task: str) -> None:
        self._exited.add(task)
        if task not in self._done:
            self._missing.add(task)
        self._watchdog.done(task)

    def disconnected(self, tasks: Iterable[str]) -> None:
        """These tasks are alive, but make no step until all tasks are restarted."""
        self._missing.update(tasks)
        for task in tasks:
            self._watchdog.done(task)

    def lost(self, host: str) -> None:
        self._leases.pop(host, None)

    def stacks(self, message: messages.Stacks) -> None:
        if self._stack_request:
            self._stack_request.stacks[message.task] = message

    def check(self, now_s: float) -> list[events.Event]:
        self._ping(now_s)
        silence = {host: self._silence(host, lease, now_s) for host, lease in self._leases.items()}
        silent = [host for host, silent_s in silence.items() if silent_s > AGENT_TIMEOUT_S]
        if silent:
            return [self._lose_agent(host) for host in silent]
        can_judge_progress = not self._missing and all(quiet_s < _AGENT_QUIET_S for quiet_s in silence.values())
        stalled = self._watchdog.check(now_s) if can_judge_progress else None
        if stalled:
            self._request_stacks(stalled, now_s)
        return self._stuck_tasks(now_s)

    def _ping(self, now_s: float) -> None:
        if now_s >= self._ping_due_s:
            self._ping_due_s = now_s + _PING_EVERY_S
            self._cluster.ping()

    def _silence(self, host: str, lease: Lease, now_s: float) -> float:
        received = self._cluster.received(host)
        if received != self._received[host]:
            self._received[host] = received
            lease.renew()
        return lease.silent_s(now_s)

    def _lose_agent(self, host: str) -> events.Event:
        """Kill an agent that no longer answers; its tasks end with it."""
        del self._leases[host]
        self._cluster.kill(host)
        return events.AgentLost(host, f"no answer for {AGENT_TIMEOUT_S:.0f} s")

    def _request_stacks(self, stalled: Stalled, now_s: float) -> None:
        self._stack_request = _StackRequest(stalled, now_s + _STACKS_TIMEOUT_S, {})
        for host in self._leases:
            self._cluster.send(host, messages.DumpStacks())

    def _stuck_tasks(self, now_s: float) -> list[events.Event]:
        """The stuck task, once all stacks have arrived or the time for them is over. No task is killed before that."""
        request = self._stack_request
        task_hosts = {task: host for task, host in self._task_hosts.items() if task not in self._exited}
        if request is None or (not task_hosts.keys() <= request.stacks.keys() and now_s < request.deadline_s):
            return []
        self._stack_request, stalled = None, request.stalled
        task_stacks = stack_report.combine(task_hosts, request.stacks, stalled.progress)
        odd = stack_report.odd_one_out(task_stacks, stalled.tasks, everyone=stalled.everyone)
        for_s = max(stalled.progress[task].since_s for task in stalled.tasks)
        line = stack_report.summary_line(task_stacks, odd, stalled.tasks, for_s)
        where = self._writer.write_stacks(stack_report.report(task_stacks, odd, line))
        return [events.TaskStuck(odd.task if odd else None, f"{line} (all tasks' stacks: {where})")]


def _watchdog(plan: RunPlan, startup_s: float, slowness: float) -> Watchdog:
    workers = [place.task for place in plan.workers]
    # Workers that wait for each other stop together, whichever of them is the cause.
    together = plan.strategy.synchronous or workers_wait(plan.spec, plan.strategy)
    if plan.is_script:
        # What a script does between its steps is not known, so that only the user can say how long it may take.
        limit_s = stall_limit_s(plan)
        return Watchdog(workers, synchronous=together, first_step_s=limit_s, busy_s=limit_s, min_stall_s=limit_s)
    return Watchdog(workers, synchronous=together, first_step_s=startup_s, busy_s=BUSY_S * slowness)
