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
    "ssp": ("pw w", "p w w", "pw pw", "pw w w"),
    "local-sgd": ("w w", "w w w"),
    "diloco": ("w w", "w w w"),
}
_ASYNCHRONOUS = ("ps-async", "ssp")
_OPTIONS = {
    "ssp": ("staleness_bound=0", "staleness_bound=3", "staleness_bound=inf"),
    "local-sgd": ("sync_every=1", "sync_every=16", "sync_every=100"),
    "diloco": ("sync_every=10", "sync_every=100"),
}
"""Options of strategies, of which one is drawn."""
_OPTIMIZERS = {
    "sgd": "0.05",
    "momentum:momentum=0.5": "0.05",
    "nesterov:momentum=0.5": "0.05",
    "adagrad": "0.01",
    "adam": "0.001",
    "adamw": "0.001",
}
"""Optimizer -> learning rate."""
_STEPS_PER_S = {
    ("torch", "single"): 1500,
    ("torch", "ps-async"): 1500,
    ("torch", "ps-sync"): 350,
    ("torch", "allreduce"): 110,
    ("torch", "ssp"): 1000,
    ("torch", "local-sgd"): 900,
    ("torch", "diloco"): 900,
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
    optimizer: str
    options: tuple[str, ...] = ()
    """Other options, as `--set` takes them."""
    checkpoint_every: int | None
    on_failure: str | None
    faults: tuple[str, ...]
    end: End
    """How the run ends: normally, by Ctrl-C, or by a kill -9 of the controller; it is then resumed if it has
    a checkpoint."""

    @property
    def arguments(self) -> list[str]:
        options = ["--engine", self.engine, "--strategy", self.strategy, "--layout", self.layout, "--hosts", self.hosts]
        options += ["--stop", f"steps={self.steps}", *(part for text in self.settings for part in ("--set", text))]
        if self.checkpoint_every:
            options += ["--checkpoint-every", str(self.checkpoint_every)]
        if self.on_failure:
            options += ["--on-failure", self.on_failure]
        return options + [part for fault in self.faults for part in ("--fault", fault)]

    @property
    def settings(self) -> tuple[str, ...]:
        """What `--set` takes."""
        return (f"optimizer={self.optimizer}", f"lr={_OPTIMIZERS[self.optimizer]}", *self.options)

    @property
    def asynchronous(self) -> bool:
        """Whether every step of a worker is an update of its own."""
        return self.strategy in _ASYNCHRONOUS

    @property
    def killed_tasks(self) -> list[str]:
        return [fault.split()[1] for fault in self.faults if fault.startswith("kill")]

    @property
    def survives(self) -> bool:
        """Whether the run must end ok even if all its faults are injected."""
        if not self.killed_tasks or self.on_failure == "restart":
            return True
        rejoins = self.engine == "torch" and self.asynchronous and self.on_failure is None
        return rejoins and all(task.startswith("w") for task in self.killed_tasks)

    def __str__(self) -> str:
        parts = [self.engine, self.strategy, f"'{self.layout}'", self.hosts, f"{self.steps} steps", *self.faults]
        parts += [self.optimizer, *self.options]
        parts += [f"checkpoints every {self.checkpoint_every}"] if self.checkpoint_every else []
        parts += [f"on failure {self.on_failure}"] if self.on_failure else []
        return " · ".join([*parts, *([self.end] if self.end != "normal" else [])])


def draw_scenario(random: Random, *, netns: bool) -> Scenario:
    # torch more often: its runs are shorter, and its parameter server is Paceline's own code.
    engine = random.choices(["torch", "tensorflow"], [3, 1])[0]
    strategy = random.choice(sorted(name for known, name in _STEPS_PER_S if known == engine))
    layout = random.choice(_LAYOUTS[strategy])
    hosts = random.choice(["local", "netns"]) if netns and strategy != "single" else "local"
    steps = int(_STEPS_PER_S[engine, strategy] * random.uniform(2, 5))
    return Scenario(
        engine=engine,
        strategy=strategy,
        layout=layout,
        hosts=hosts,
        steps=steps,
        optimizer=random.choice(sorted(_OPTIMIZERS)),
        options=_options(random, engine, strategy),
        checkpoint_every=random.choice([None, max(1, steps // 10)]),
        on_failure=random.choice([None, "fail", "restart", "restart"]),
        faults=tuple(_fault(random, layout, hosts, steps) for _ in range(random.choice([0, 1, 1, 2]))),
        end=random.choices(["normal", "interrupt", "kill"], [6, 1, 1])[0],  # type: ignore[arg-type]
    )


def _options(random: Random, engine: str, strategy: str) -> tuple[str, ...]:
    options = [random.choice(_OPTIONS[strategy])] if strategy in _OPTIONS else []
    options += random.choice([[], ["clip=0.5"], ["schedule=cosine:warmup=20"]])
    if engine == "torch" and strategy != "single":
        options += random.choice([[], [], ["compress=fp16"], ["compress=int8"]])
    return tuple(options)


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
