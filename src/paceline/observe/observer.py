"""Observes the script of one rank: installs the hooks, starts the clock of steps, and makes the outcome."""

import math
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import cast

from paceline.observe.event_clock import EventClock
from paceline.observe.import_hooks import Hook, watch_imports
from paceline.observe.keras_hooks import observe_keras
from paceline.observe.process_hooks import observe_processes
from paceline.observe.stack_sampler import StackSampler
from paceline.observe.stop import StopRules
from paceline.observe.torch_hooks import observe_distributed_checkpoint, observe_safetensors, observe_torch
from paceline.recording import folded_stacks
from paceline.recording.recorder import clock_ns
from paceline.train.context import Outcome, ScriptRendezvous, TaskContext

_FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "lightning", "accelerate", "transformers")
"""Packages whose version is stored with the run, if the script uses them."""
_HOOKS: dict[str, Callable[[ModuleType, EventClock, Callable[[str], None]], None]] = {
    "torch": observe_torch,
    "torch.distributed.checkpoint": observe_distributed_checkpoint,
    "safetensors.torch": observe_safetensors,
    "keras": observe_keras,
}
"""By the module after whose import it is called."""

_NOT_SEEN = (
    "Paceline sees the steps of torch optimizers and of Keras fit; in any other loop, call paceline.observe.step() "
    "after each step"
)
_OWN_RANKS = (
    "the script starts ranks of its own, by torch.multiprocessing or a launcher such as torchrun, which are not "
    "observed; give the script that trains one rank to paceline launch, and say with --layout how many ranks there are"
)


class Observer:
    def __init__(self, context: TaskContext) -> None:
        self._rendezvous = rendezvous = cast(ScriptRendezvous, context.rendezvous)
        self._rules = StopRules(context.job, rendezvous)
        self._notes: list[str] = []
        self.clock = EventClock(context.recorder, rendezvous.report_ready, self._rules.check, self._rules.steps_left)
        script = context.job.script
        self.sampler = StackSampler(self.clock, script.stack_hz if script else 0.0)

    def install(self) -> None:
        """Observe frameworks from the moment at which the script imports them."""
        watch_imports({name: self._hook(name) for name in _HOOKS})
        observe_processes(self._ranks_started)
        # Processes that the script forks, such as the workers of a data loader, must not write to the same records.
        os.register_at_fork(after_in_child=self._disable)
        self.sampler.start()

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to end, so that ranks may lose each other."""
        return self._rules.stopping

    def finish(self) -> Outcome:
        """The outcome, after the script has ended."""
        clock = self.clock
        self.sampler.stop()
        clock.finish()
        clock.enabled = False
        outcome = Outcome(
            steps=clock.steps,
            updates=clock.steps,
            started_ns=clock.started_ns or clock_ns(),
            ended_ns=clock.ended_ns,
            diverged=bool(clock.steps) and clock.loss_was_seen and not math.isfinite(clock.loss),
            versions={name: version for name in _FRAMEWORKS if (version := _version(name))},
            lines=self.sampler.lines(),
            why_no_step="" if clock.steps else _OWN_RANKS if clock.spawned else _NOT_SEEN,
            notes=tuple(self._all_notes()),
        )
        self._rules.fill_in(outcome)
        if stacks := self.sampler.stacks():
            self._rendezvous.attach("profile", folded_stacks.FILE_NAME, folded_stacks.encode(stacks))
        return outcome

    def _all_notes(self) -> list[str]:
        missed, steps = self.clock.missed, self.clock.steps
        if missed and missed >= steps:
            return [*self._notes, "the loss and the exchange behind backward passes could not be observed"]
        return self._notes

    def _hook(self, name: str) -> Hook:
        """A hook that never raises: if observation fails, the script goes on as if it was not observed."""

        def observe(module: ModuleType) -> None:
            try:
                _HOOKS[name](module, self.clock, self._note)
            except Exception as error:
                self._note(f"{name} cannot be observed: {type(error).__name__}: {error}")

        return observe

    def _note(self, line: str) -> None:
        self._notes.append(line)
        print(f"[paceline] {line}", file=sys.stderr, flush=True)

    def _ranks_started(self) -> None:
        self.clock.spawned = True

    def _disable(self) -> None:
        self.clock.enabled = False


def _version(package: str) -> str:
    return str(getattr(sys.modules.get(package), "__version__", ""))
