"""Keeps watch while a run goes on: agents that fall silent, workers that make no progress, and where these are."""

from collections.abc import Iterable

import msgspec
import numpy as np

from paceline import messages
from paceline.agent.lease import Lease
from paceline.control import events as words
from paceline.control import stack_report
from paceline.control.cluster import Cluster
from paceline.control.watchdog import ASIDE_S, Stalled, Watchdog
from paceline.plan.place import RunPlan
from paceline.recording.recorder import STEP
from paceline.recording.rows import of_kind
from paceline.store.writer import RunWriter

AGENT_PATIENCE_S = 10.0
AGENT_LEASE_S = 20.0
"""The agents' own patience with the controller: longer, so that it is the controller who says what went wrong."""
_PING_EVERY_S = 1.0
_UNSURE_S = 2.5
"""An agent that is silent for so long may be why nothing is heard of its tasks."""
_STACKS_PATIENCE_S = 3.0


class _Inquiry(msgspec.Struct):
    stalled: Stalled
    deadline_s: float
    stacks: dict[str, messages.Stacks]
    """By task."""


class LivenessMonitor:
    """Told of what agents say; asked, again and again, for what the supervisor should know."""

    def __init__(self, plan: RunPlan, cluster: Cluster, writer: RunWriter, startup_s: float, slowness: float) -> None:
        """`slowness`: how many times longer than on a whole core things may take."""
        self._cluster, self._writer, self._records = cluster, writer, plan.spec.record
        self._homes = {place.task: place.host for place in plan.places}
        self._watchdog = Watchdog(
            [place.task for place in plan.workers],
            synchronous=plan.synchronous,
            first_step_s=startup_s,
            aside_s=ASIDE_S * slowness,
        )
        self._leases: dict[str, Lease] = {}
        self._heard: dict[str, int] = {}
        self._ping_due_s = 0.0
        self._gone: set[str] = set()
        self._done: set[str] = set()
        self._away: set[str] = set()
        """Tasks that ended too early: until they are back, others may have to wait for them."""
        self._inquiry: _Inquiry | None = None

    def joined(self, host: str) -> None:
        self._leases[host], self._heard[host] = Lease(), self._cluster.heard(host)

    def opened(self, tasks: Iterable[str]) -> None:
        """The barrier, for tasks that were started, perhaps not for the first time."""
        for which in (self._gone, self._done, self._away):
            which.difference_update(tasks)
        # What records nothing shows no progress either.
        if self._records:
            self._watchdog.open(tasks)

    def recorded(self, task: str, records: np.ndarray) -> None:
        steps = of_kind(records, STEP)
        self._watchdog.stepped(task, (steps["end_ns"] - steps["start_ns"]) / 1e9)

    def aside(self, message: messages.Busy) -> None:
        self._watchdog.aside(message.task, message.what)

    def done(self, task: str) -> None:
        """It makes no more steps."""
        self._done.add(task)
        self._watchdog.done(task)

    def exited(self, task: str) -> None:
        self._gone.add(task)
        if task not in self._done:
            self._away.add(task)
        self._watchdog.done(task)

    def recalled(self, tasks: Iterable[str]) -> None:
        """They are alive, but make no step until all begin again."""
        self._away.update(tasks)
        for task in tasks:
            self._watchdog.done(task)

    def lost(self, host: str) -> None:
        self._leases.pop(host, None)

    def stacks(self, message: messages.Stacks) -> None:
        if self._inquiry:
            self._inquiry.stacks[message.task] = message

    def look(self, now_s: float) -> list[words.Event]:
        self._ping(now_s)
        silence = {host: self._silence(host, lease, now_s) for host, lease in self._leases.items()}
        silent = [host for host, silent_s in silence.items() if silent_s > AGENT_PATIENCE_S]
        if silent:
            return [self._give_up(host) for host in silent]
        sure = not self._away and all(quiet_s < _UNSURE_S for quiet_s in silence.values())
        stalled = self._watchdog.look(now_s) if sure else None
        if stalled:
            self._inquire(stalled, now_s)
        return self._conclude(now_s)

    def _ping(self, now_s: float) -> None:
        if now_s >= self._ping_due_s:
            self._ping_due_s = now_s + _PING_EVERY_S
            self._cluster.ping()

    def _silence(self, host: str, lease: Lease, now_s: float) -> float:
        heard = self._cluster.heard(host)
        if heard != self._heard[host]:
            self._heard[host] = heard
            lease.renew()
        return lease.silent_s(now_s)

    def _give_up(self, host: str) -> words.Event:
        """An agent that no longer answers takes its tasks along when it is killed."""
        del self._leases[host]
        self._cluster.kill(host)
        return words.AgentLost(host, f"it has not answered for {AGENT_PATIENCE_S:.0f} s")

    def _inquire(self, stalled: Stalled, now_s: float) -> None:
        self._inquiry = _Inquiry(stalled, now_s + _STACKS_PATIENCE_S, {})
        for host in self._leases:
            self._cluster.send(host, messages.DumpStacks())

    def _conclude(self, now_s: float) -> list[words.Event]:
        """Once all stacks are there, or were waited for long enough: nothing is killed before."""
        inquiry = self._inquiry
        homes = {task: host for task, host in self._homes.items() if task not in self._gone}
        if inquiry is None or (not homes.keys() <= inquiry.stacks.keys() and now_s < inquiry.deadline_s):
            return []
        self._inquiry, stalled = None, inquiry.stalled
        found = stack_report.gathered(homes, inquiry.stacks, stalled.progress)
        odd = stack_report.odd_one_out(found, stalled.tasks, everyone=stalled.everyone)
        for_s = max(stalled.progress[task].since_s for task in stalled.tasks)
        line = stack_report.in_a_line(found, odd, stalled.tasks, for_s)
        where = self._writer.stacks(stack_report.report(found, odd, line))
        return [words.TaskStuck(odd.task if odd else None, f"{line} (all tasks' stacks: {where})")]
