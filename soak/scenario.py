"""A run and what goes wrong in it, drawn at random. Pure: the same seed draws the same scenarios."""

from random import Random
from typing import Literal

import msgspec

End = Literal["its own", "interrupt", "kill"]

_LAYOUTS = {
    "single": ("w",),
    "ps-sync": ("pw w", "p w w", "pw pw", "pw w w"),
    "ps-async": ("pw w", "p w w", "pw pw", "pw w w"),
    "allreduce": ("w w", "w w w"),
}
_STEPS_A_SECOND = {
    ("torch", "single"): 1500,
    ("torch", "ps-async"): 1500,
    ("torch", "ps-sync"): 350,
    ("torch", "allreduce"): 110,
    ("tensorflow", "single"): 900,
    ("tensorflow", "ps-async"): 250,
    ("tensorflow", "ps-sync"): 70,
    ("tensorflow", "allreduce"): 60,
}
"""Roughly: so that faults fall into the training of a few seconds."""


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
    """Who ends the run: itself, a Ctrl-C, or a kill -9 of the controller, after which it is resumed if it can be."""

    @property
    def arguments(self) -> list[str]:
        found = ["--engine", self.engine, "--strategy", self.strategy, "--layout", self.layout, "--hosts", self.hosts]
        found += ["--stop", f"steps={self.steps}", "--set", f"momentum={self.momentum}", "--set", "lr=0.05"]
        if self.checkpoint_every:
            found += ["--checkpoint-every", str(self.checkpoint_every)]
        if self.on_failure:
            found += ["--on-failure", self.on_failure]
        return found + [part for fault in self.faults for part in ("--fault", fault)]

    @property
    def deaths(self) -> list[str]:
        """Tasks that are killed."""
        return [fault.split()[1] for fault in self.faults if fault.startswith("kill")]

    @property
    def survives(self) -> bool:
        """Whether the run is to end ok though all its faults come."""
        if not self.deaths or self.on_failure == "restart":
            return True
        rejoins = self.engine == "torch" and self.strategy == "ps-async" and self.on_failure is None
        return rejoins and all(task.startswith("w") for task in self.deaths)

    def __str__(self) -> str:
        parts = [self.engine, self.strategy, f"'{self.layout}'", self.hosts, f"{self.steps} steps", *self.faults]
        parts += [f"checkpoints every {self.checkpoint_every}"] if self.checkpoint_every else []
        parts += [f"on failure {self.on_failure}"] if self.on_failure else []
        return " · ".join([*parts, *([self.end] if self.end != "its own" else [])])


def draw(random: Random, *, netns: bool) -> Scenario:
    # The quicker engine more often: more runs, and most of what can go wrong is in our own servers.
    engine = random.choices(["torch", "tensorflow"], [3, 1])[0]
    strategy = random.choice(sorted(_LAYOUTS))
    layout = random.choice(_LAYOUTS[strategy])
    hosts = random.choice(["local", "netns"]) if netns and strategy != "single" else "local"
    steps = int(_STEPS_A_SECOND[engine, strategy] * random.uniform(2, 5))
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
        end=random.choices(["its own", "interrupt", "kill"], [6, 1, 1])[0],  # type: ignore[arg-type]
    )


def _fault(random: Random, layout: str, hosts: str, steps: int) -> str:
    tasks = [f"w{number}" for number in range(layout.count("w"))] + [f"ps{n}" for n in range(layout.count("p"))]
    host = f"h{random.randint(1, len(layout.split()))}"
    when = random.choice([f"at step {random.randint(1, steps)}", f"at {random.uniform(0, 3):.1f}s"])
    task, seconds = random.choice(tasks), f"{random.uniform(0.3, 3):.1f}s"
    kinds = [f"kill {task} {when}", f"kill {task} {when}", f"freeze {task} for {seconds} {when}"]
    if hosts == "netns":
        kinds += [
            f"cut {host} for {seconds} {when}",
            f"slow {host} to 0.2 cpus for {seconds} {when}",
            f"limit {host} to 10mbit for {seconds} {when}",
        ]
    return random.choice(kinds)
