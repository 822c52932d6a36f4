"""Ends a user's script at a step that all its ranks agree on."""

import math

from paceline.spec.stop import StopRule, first_met_rule
from paceline.train.context import Job, Outcome, ScriptRendezvous

_NOTICE_S = 1.0
"""How far ahead the last step is announced, so that every rank knows of it before it gets there."""
_LEAST_NOTICE = 2
"""The same in steps, for scripts with long steps."""


class StopTraining(SystemExit):
    """Raised in the script after its last step. It passes through the script like sys.exit(0)."""

    def __init__(self) -> None:
        super().__init__(0)


class StopRules:
    """Decides after each step of a rank whether it is the last one.

    A number of steps is known to every rank. If the time is over or the user interrupts the run, the first rank chooses
    a later step, and the controller tells all ranks: a rank that stopped earlier would leave the others waiting.
    """

    def __init__(self, job: Job, rendezvous: ScriptRendezvous) -> None:
        self._job, self._rendezvous = job, rendezvous
        self._step_limit = min((rule.value for rule in job.stop if rule.kind == "steps"), default=math.inf)
        self._limit_ns = 1e9 * min((rule.value for rule in job.stop if rule.kind == "seconds"), default=math.inf)
        self._announces = job.is_chief
        self.met: StopRule | None = None
        """The stop rule that ended the script."""

    @property
    def stopping(self) -> bool:
        return self.met is not None or self._rendezvous.halted.is_set() or self._rendezvous.last_step is not None

    def check(self, steps: int, started_ns: int, now_ns: int) -> None:
        """Raise StopTraining if the last of `steps` steps was the last one of the run."""
        rendezvous = self._rendezvous
        last = rendezvous.last_step
        if steps >= self._step_limit or (last is not None and steps >= last):
            self._stop(steps, (now_ns - started_ns) / 1e9)
        if self._announces and (now_ns - started_ns >= self._limit_ns or rendezvous.halted.is_set()):
            self._announces = False
            self._announce(steps, (now_ns - started_ns) / 1e9)

    def steps_left(self, steps: int) -> float:
        """After how many more steps `check` must be called at once; infinite if no last step is known."""
        last = self._rendezvous.last_step
        return min(self._step_limit, math.inf if last is None else last) - steps

    def _announce(self, steps: int, seconds: float) -> None:
        if self._job.workers == 1:
            self._stop(steps, seconds)
        notice = max(_LEAST_NOTICE, math.ceil(_NOTICE_S * steps / max(seconds, 1e-9)))
        self._rendezvous.announce_last_step(steps + notice)

    def fill_in(self, outcome: Outcome) -> None:
        """Say in the outcome which rule ended the script, if this is the first rank."""
        if self.met and self._job.is_chief:
            outcome.reached, outcome.reached_ns, outcome.reached_update = str(self.met), outcome.ended_ns, outcome.steps

    def _stop(self, steps: int, seconds: float) -> None:
        self.met = first_met_rule(self._job.stop, update=steps, seconds=seconds, updates_per_epoch=1)
        raise StopTraining
