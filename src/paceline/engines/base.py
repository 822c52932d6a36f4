"""The contract of an engine: a descriptor that says what a framework can do and where its code is.

An engine is a folder (or an installed package) with a descriptor, registered in pyproject.toml:

    [project.entry-points."paceline.engines"]
    torch = "paceline.engines.torch.descriptor:DESCRIPTOR"

The descriptor's module must not import the framework: it is loaded to plan a run, to list engines and to print help.
Code that does is named as `module:function` and loaded only in the process that calls it.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import msgspec

from paceline.entry_points import load_object
from paceline.versions import installed_version

if TYPE_CHECKING:  # Shell completion lists engines and must not wait for NumPy.
    from paceline.workloads.workload import Workload

Secrets = dict[str, dict[str, str]]
"""By role and purpose."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """What Paceline knows of an engine. Only the first group of fields is required."""

    summary: str
    """One line for `paceline doctor`."""
    required_module: str
    """The top-level module that must be importable, e.g. torch."""
    distributions: tuple[str, ...]
    """The distributions that may provide that module; the version of the first one installed is the engine's."""
    install_hint: str
    """The command that installs it."""
    strategies: frozenset[str]
    """The strategies that it implements."""
    tasks: Mapping[str, str]
    """By role (see plan.roles): `module:function` of (TaskContext) -> Outcome, which is the task's whole work."""

    secrets: str | None = None
    """`module:function` of () -> Secrets: keys made anew for each run, which a task gets according to its role."""
    may_pass: str | None = None
    """`module:function` of (BaseException) -> bool: whether an error of the framework may be absent in another attempt,
    because a peer was lost or memory ran out; None: its errors are those of Python (see task.classify_error)."""
    environment: Mapping[str, str] = {}
    """Environment variables set for its tasks before the framework is loaded."""
    folder_variables: tuple[str, ...] = ()
    """Environment variables that name a folder of the user into which the framework writes files. On other machines,
    they are set to a folder that is removed at the end of the run."""
    preload: tuple[str, ...] = ()
    """Modules that all its tasks may share: imported once in a process from which tasks are forked. None of them may
    start a thread or initialize the framework's runtime when it is imported."""
    listens: str = ""
    """What listens on which address during a run and who may connect, for `paceline doctor`."""
    unauthenticated: Mapping[str, str] = {}
    """By strategy: what listens without authentication, as text to follow `because`. Such a strategy is refused on
    hosts whose network is not trusted. A strategy that is not listed admits only tasks of the run."""

    system_ports: Mapping[str, str] = {}
    """By strategy: what listens on ports that the operating system chooses, as text to follow `because`. Such a
    strategy is refused on hosts that allow only certain ports. All other listeners keep to `Job.ports`."""

    layers: frozenset[str] | None = None
    """The names of the layers that it can build (see workloads.layers), such as `Dense`; None is all."""
    multiplies_blocks: bool = False
    """Whether it runs workloads that multiply matrices block by block instead of training."""
    user_model: str | None = None
    """The field of Workload in which a user gives a model of this framework; None: it takes none."""

    options: frozenset[str] = frozenset()
    """The options of spec.experiment that only some engines have and that this one has, such as `master`."""
    check: str | None = None
    """`module:function` of () -> list[str]: what this machine lacks to run the engine, each with the remedy."""
    advice: str | None = None
    """`module:function` of () -> list[str]: what would make the engine faster on this machine."""

    any_optimizer: bool = False
    """Whether it implements all of `spec.optimizer`: every kind, schedules, clipping and groups of parameters. If not,
    runs may ask only for sgd and momentum with a constant learning rate."""
    clips_across_servers: bool = False
    """Whether a gradient of which several servers have a part can be clipped by its whole norm."""

    collectives: Mapping[str, str] = {}
    """By role: `module:function` of (TaskContext) -> Outcome that measures collective operations for `paceline
    bench-collectives`; empty if the engine has none."""
    runs_scripts: bool = False
    """Whether it runs users' own scripts instead of workloads."""
    shares_memory: bool = False
    """Whether its servers and workers can pass values through memory that they share."""
    drops_late_gradients: bool = False
    """Whether its servers can make an update without the gradients of the slowest workers."""
    workers_rejoin: bool = False
    """Whether a worker of its parameter servers can be restarted while the other tasks keep running."""
    splits_parameters_evenly: bool = False
    """Whether it divides a parameter among several servers, so that each holds the same number of values."""

    @property
    def installed(self) -> bool:
        return find_spec(self.required_module) is not None

    @property
    def problems(self) -> list[str]:
        """What this machine lacks to run the engine although it is installed, each with the remedy."""
        return cast(list[str], load_object(self.check)()) if self.check and self.installed else []

    @property
    def hints(self) -> list[str]:
        """What would make the engine faster on this machine."""
        return cast(list[str], load_object(self.advice)()) if self.advice and self.installed else []

    @property
    def version(self) -> str | None:
        """Of the framework as it is installed here; None if it is not."""
        return installed_version(self.distributions)

    def can_run(self, workload: "Workload") -> bool:
        """Whether it can build what the workload computes."""
        return not self.lacks(workload)

    def lacks(self, workload: "Workload") -> str:
        """Why it cannot build what the workload computes, as the predicate of a sentence; empty if it can."""
        if self.runs_scripts:
            return "runs a user's script"
        if workload.blocks:
            return "" if self.multiplies_blocks else "trains models and has no product of matrices in blocks"
        if workload.model:
            needed = {type(layer).__name__ for layer in workload.model.layers}
            missing = sorted(needed - self.layers) if self.layers is not None else []
            return f"has no layer {' or '.join(missing)}" if missing else ""
        return "" if self.user_model in workload.user_models else "takes another kind of model"

    def new_secrets(self) -> Secrets:
        """Keys for one run."""
        return cast(Secrets, load_object(self.secrets)()) if self.secrets else {}
