"""Random scenarios: the configuration of a run and its faults. The same seed gives the same scenarios."""

from random import Random
from typing import Literal

import msgspec

End = Literal["normal", "interrupt", "kill"]

_LAYOUTS = {
    "single": ("w",),
    "ps-sync": ("pw w", "p w w", "pw pw", "pw w w"),
    "ps-async": ("pw w", "p w w", "pw pw", "pw w w"),
    "allreduce": ("w w", "w w w"),
}
_STEPS_PER_S = {
    ("torch", "single"): 1500,
    ("torch", "ps-async"): 1500,
    ("torch", "ps-sync"): 350,
    ("torch", "allreduce"): 110,
    ("tensorflow", "single"): 900,
    ("tensorflow", "ps-async"): 250,
    ("tensorflow", "ps-sync"): 70,
    ("tensorflow", "allreduce"): 60,
}
"""Approximate, to choose a number of steps for which training takes a few seconds."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    engine: str
    strategy: str
    layout: str
    hosts: str
    steps: int
    momentum: float
    checkpoint_every: int | None
    on_failure: str | None
    faults: tuple[str, ...]
    end: End
    """How the run ends: normally, by Ctrl-C, or by a kill -9 of the controller; it is then resumed if it has
    a checkpoint."""

    @property
    def arguments(self) -> list[str]:
        options = ["--engine", self.engine, "--strategy", self.strategy, "--layout", self.layout, "--hosts", self.hosts]
        options += ["--stop", f"steps={self.steps}", "--set", f"momentum={self.momentum}", "--set", "lr=0.05"]
        if self.checkpoint_every:
            options += ["--checkpoint-every", str(self.checkpoint_every)]
        if self.on_failure:
            options += ["--on-failure", self.on_failure]
        return options + [part for fault in self.faults for part in ("--fault", fault)]

    @property
    def killed_tasks(self) -> list[str]:
        return [fault.split()[1] for fault in self.faults if fault.startswith("kill")]

    @property
    def survives(self) -> bool:
        """Whether the run must end ok even if all its faults are injected."""
        if not self.killed_tasks or self.on_failure == "restart":
            return True
        rejoins = self.engine == "torch" and self.strategy == "ps-async" and self.on_failure is None
        return rejoins and all(task.startswith("w") for task in self.killed_tasks)

    def __str__(self) -> str:
        parts = [self.engine, self.strategy, f"'{self.layout}'", self.hosts, f"{self.steps} steps", *self.faults]
        parts += [f"checkpoints every {self.checkpoint_every}"] if self.checkpoint_every else []
        parts += [f"on failure {self.on_failure}"] if self.on_failure else []
        return " · ".join([*parts, *([self.end] if self.end != "normal" else [])])


def draw_scenario(random: Random, *, netns: bool) -> Scenario:
    # torch more often: its runs are shorter, and its parameter server is Paceline's own code.
    engine = random.choices(["torch", "tensorflow"], [3, 1])[0]
    strategy = random.choice(sorted(_LAYOUTS))
    layout = random.choice(_LAYOUTS[strategy])
    hosts = random.choice(["local", "netns"]) if netns and strategy != "single" else "local"
    steps = int(_STEPS_PER_S[engine, strategy] * random.uniform(2, 5))
    return Scenario(
        engine=engine,
        strategy=strategy,
        layout=layout,
        hosts=hosts,
        steps=steps,
        momentum=random.choice([0.0, 0.5]),
        checkpoint_every=random.choice([None, max(1, steps // 10)]),
        on_failure=random.choice([None, "fail", "restart", "restart"]),
        faults=tuple(_fault(random, layout, hosts, steps) for _ in range(random.choice([0, 1, 1, 2]))),
        end=random.choices(["normal", "interrupt", "kill"], [6, 1, 1])[0],  # type: ignore[arg-type]
    )


def _fault(random: Random, layout: str, hosts: str, steps: int) -> str:
    tasks = [f"w{number}" for number in range(layout.count("w"))] + [f"ps{n}" for n in range(layout.count("p"))]
    host = f"h{random.randint(1, len(layout.split()))}"
    trigger = random.choice([f"at step {random.randint(1, steps)}", f"at {random.uniform(0, 3):.1f}s"])
    task, seconds = random.choice(tasks), f"{random.uniform(0.3, 3):.1f}s"
    kinds = [f"kill {task} {trigger}", f"kill {task} {trigger}", f"freeze {task} for {seconds} {trigger}"]
    if hosts == "netns":
        kinds += [
            f"cut {host} for {seconds} {trigger}",
            f"slow {host} to 0.2 cpus for {seconds} {trigger}",
            f"limit {host} to 10mbit for {seconds} {trigger}",
        ]
    return random.choice(kinds)
