"""What the rest of Paceline needs to know about a strategy. Nothing outside this package tests a strategy's name."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Phase = Literal["data", "pull", "compute", "push", "wait", "forward", "backward", "exchange", "optimizer"]
Waits = Literal["never", "every-step", "every-round", "when-ahead"]
Fact = Literal["has_servers", "has_parameter_servers", "has_rounds", "sends_every_parameter"]
"""A fact because of which a workload can refuse a strategy."""


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """How workers train one model together. It is stored with every run, so a field may be added but not renamed."""

    name: str
    summary: str
    """A few words for lists."""
    update: str
    """What one update of the global parameters is, as a sentence."""
    waiting: str
    """Which task waits for which, as a sentence."""
    checkpoint: str
    """What a checkpoint holds, as a sentence."""
    synchronous: bool
    """Whether one update takes a step of every worker."""
    waits: Waits
    """When a worker waits for other workers: never, in every step, after a round of several steps, or only when it is
    too many steps ahead of the slowest."""
    has_servers: bool
    """Whether parameter servers hold the parameters, so that the layout needs at least one."""
    one_server: bool = False
    """Whether exactly one task may hold the parameters."""
    server_is: str = "server"
    """What holds the parameters; the bottleneck has this name if that task is the cause."""
    single_worker: bool = False
    """Whether it has exactly one worker. Such a run is the baseline of runs with several workers."""
    phases: tuple[Phase, ...]
    """The phases of a step, in order. Engines record them, or the analysis derives them from traces."""
    barrier_phase: Phase | None = None
    """The recorded phase in which a worker waits for the others; None if it never waits. If this is not `wait`, the
    phase also holds the exchange: it begins when the worker arrives and ends for all workers at once, so the analysis
    splits the time until the last arrival out of it."""
    waits_for_task: bool = False
    """Whether a worker also waits at the start of a step, until it is given its work. Its last wait of a step is then
    the one for the other workers; otherwise the first."""
    sends_every_parameter: bool = False
    """Whether workers exchange the gradient of every parameter, also of those that a batch did not use."""
    options: Mapping[str, int | float | str | None] = {}
    """The options of spec.experiment that only some strategies have and that this one has, each with its default."""
    shares_memory: bool = True
    """Whether tasks of one machine exchange values through shared memory where engine and hosts support it."""
    can_leave_out_slow_workers: bool = False
    """Whether an update can be made without the gradients of the slowest workers (--backup)."""
    workers_evaluate: bool = True
    """Whether every worker has the parameters between two steps, so that it can evaluate them."""
    linear_models_only: bool = False
    """Whether it trains only models of one linear layer, such as softmax regression."""
    driver_bytes_per_parameter: int = 0
    """Memory that the driver needs for each parameter; 0 if that is little."""
    own_optimizer: bool = False
    """Whether it has an optimizer of its own, so that the user can choose neither an optimizer nor its settings."""
    whole_data: bool = False
    """Whether one update uses all training examples instead of one batch of every worker."""
    others_take_over: bool = False
    """Whether the other workers do the work of a lost worker until it is back, if the engine can restart it."""
    eval_every: int | None = None
    """Updates between evaluations if a stop rule needs them and the user gives no number; None: that of the plan."""
    asynchronous_counterpart: str | None = None
    """The strategy to suggest if workers should not wait for each other."""
    synchronous_counterpart: str | None = None
    """The strategy to suggest if every worker should have the same share in each update."""
    multi_worker_counterpart: str | None = None
    """The strategy to suggest if one worker is not enough."""
    protocol: str | None = None
    """`module:function` that simulates its exchange of gradients, for `paceline predict` (see prediction/protocols.py);
    None if it cannot be predicted."""
    seldom_exchanging_counterpart: str | None = None
    """The strategy to suggest if the network is too slow for an exchange in every step."""

    @property
    def has_parameter_servers(self) -> bool:
        """Whether its servers only hold the parameters. A driver also starts the work of each step."""
        return self.has_servers and not self.waits_for_task

    @property
    def has_rounds(self) -> bool:
        """Whether workers train alone for a round of several steps before they exchange anything."""
        return self.waits == "every-round"

    @property
    def mixed_phase(self) -> Phase | None:
        """The phase that holds both the exchange and the wait for the other workers; None if they are separate."""
        return None if self.barrier_phase == "wait" else self.barrier_phase

    def gradients_per_update(self, workers: int, backup: int = 0) -> int:
        """The number of workers whose gradients one update averages; `backup` workers are not waited for."""
        return workers - backup if self.synchronous else 1

    def driver_memory_gib(self, parameters: int) -> int:
        """Memory that the driver needs for a model of that many parameters, in GiB, rounded up."""
        return -(-parameters * self.driver_bytes_per_parameter // 2**30)

    def reason_against(self, refused: Mapping[Fact, str]) -> str | None:
        """The first reason that holds for this strategy of those for which a workload refuses strategies."""
        return next((reason for fact, reason in refused.items() if getattr(self, fact)), None)

    @property
    def counterparts(self) -> tuple[str, ...]:
        """The names of the strategies that can be suggested instead of this one."""
        names = (
            self.asynchronous_counterpart,
            self.synchronous_counterpart,
            self.multi_worker_counterpart,
            self.seldom_exchanging_counterpart,
        )
        return tuple(dict.fromkeys(name for name in names if name))
