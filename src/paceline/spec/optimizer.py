"""The optimizer of a run, described independently of the engine: its rule, learning rate over time, clipping, groups.

`train.block_optimizer` applies it to vectors with NumPy (parameter servers, Spark); each framework has its own
implementation. Tests hold all of them to torch.optim and Keras.
"""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from paceline.errors import SpecError, unknown
from paceline.spec.schedule import Schedule, read_pairs

Kind = Literal["sgd", "momentum", "nesterov", "adagrad", "adam", "adamw"]

_SETTINGS: Mapping[str, Mapping[str, float]] = {
    "sgd": {"weight_decay": 0.0},
    "momentum": {"momentum": 0.9, "weight_decay": 0.0},
    "nesterov": {"momentum": 0.9, "weight_decay": 0.0},
    "adagrad": {"epsilon": 1e-10, "weight_decay": 0.0},
    "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0},
    "adamw": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01},
}
"""The settings of each optimizer with their defaults, which are those of torch.optim."""
KINDS = tuple(_SETTINGS)
_STATE: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum": ("velocity",),
    "nesterov": ("velocity",),
    "adagrad": ("squares",),
    "adam": ("mean", "mean_square"),
    "adamw": ("mean", "mean_square"),
}
STATE_NAMES = tuple(dict.fromkeys(name for names in _STATE.values() for name in names))
"""The names of all vectors that an optimizer may store beside the parameters, as in checkpoints."""
_FAMILIES = (("sgd", "momentum", "nesterov"), ("adagrad",), ("adam", "adamw"))
"""Optimizers that need about the same learning rate."""
_DEFAULT_LR: Mapping[str, float] = {"adagrad": 0.01, "adam": 0.001, "adamw": 0.001}
_SGD_LR = 0.01
_BELOW_ONE = ("momentum", "beta1", "beta2")
_GROUP_EXAMPLE = "'*bias:weight_decay=0 embedding*:lr_scale=0.1'"


class ParameterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for the parameters whose names match a pattern."""

    pattern: str
    """As in file names: `*` is any text, `?` any character."""
    lr_scale: float = 1.0
    """Multiplies the learning rate; 0 leaves the parameters as they are, except for momentum."""
    weight_decay: float | None = None
    """Takes the place of the optimizer's; None leaves it."""


class GroupSettings(msgspec.Struct, frozen=True):
    """What the groups of a run say about one parameter."""

    lr_scale: float
    weight_decay: float


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """How an update changes the parameters. The rules are those of torch.optim; `update` below is the number of updates
    that were made before."""

    kind: Kind = "sgd"
    lr: float
    momentum: float = 0.0
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0
    weight_decay: float = 0.0
    """adamw: decoupled from the gradient. Others: added to the gradient (L2 regularisation)."""
    schedule: Schedule = Schedule()
    clip: float | None = None
    """The largest norm of a gradient; a larger gradient is scaled down to it."""
    groups: tuple[ParameterGroup, ...] = ()

    @property
    def state_names(self) -> tuple[str, ...]:
        """The vectors that it stores for each parameter, in the order in which engines store them."""
        return _STATE[self.kind]

    @property
    def is_plain_sgd(self) -> bool:
        """Whether an update only subtracts the gradient times one constant."""
        return self.kind == "sgd" and self.has_constant_rate and not self.weight_decay and not self.groups

    @property
    def has_constant_rate(self) -> bool:
        return self.schedule.is_constant

    @property
    def corrects_bias(self) -> bool:
        """Whether an update depends on its number, because means over past gradients start at zero."""
        return self.kind in ("adam", "adamw")

    @property
    def decays_apart(self) -> bool:
        """Whether weight decay is applied to the parameters directly instead of through the gradient."""
        return self.kind == "adamw"

    def lr_at(self, update: int) -> float:
        """The learning rate of the next update, after `update` updates."""
        return self.lr * self.schedule.at(update)

    def settings_for(self, parameter: str) -> GroupSettings:
        """The settings of a parameter: of the first group whose pattern matches its name."""
        for group in self.groups:
            if fnmatchcase(parameter, group.pattern):
                decay = self.weight_decay if group.weight_decay is None else group.weight_decay
                return GroupSettings(group.lr_scale, decay)
        return GroupSettings(1.0, self.weight_decay)

    def check_groups(self, parameters: Sequence[str]) -> None:
        """SpecError if a group has no parameters."""
        for group in self.groups:
            if not any(fnmatchcase(name, group.pattern) for name in parameters):
                some = ", ".join(parameters[:6])
                raise SpecError(f"param_groups: no parameter matches '{group.pattern}': the names are {some}")


class OptimizerText(msgspec.Struct, frozen=True, kw_only=True):
    """The optimizer as the user wrote it: its name and the settings that differ from the defaults."""

    kind: Kind
    settings: Mapping[str, float] = {}

    @classmethod
    def parse(cls, text: str) -> "OptimizerText":
        """Read `adamw:weight_decay=0.01:beta2=0.95`."""
        kind, _, rest = text.partition(":")
        if kind not in _SETTINGS:
            raise SpecError(unknown("optimizer", kind, KINDS))
        settings = read_pairs(f"optimizer '{text}'", rest, _SETTINGS[kind]) if ":" in text else {}
        for name, value in settings.items():
            if name in _BELOW_ONE and value >= 1:
                raise SpecError(f"optimizer '{text}': {name} must be from 0 to below 1")
        return cls(kind=kind, settings=settings)  # type: ignore[arg-type]


class TrainingText(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the optimizer as a user or a workload gives them; None where it gives none."""

    lr: float | None = None
    momentum: float | None = None
    optimizer: str | None = None
    schedule: str | None = None
    clip: float | None = None
    param_groups: str | None = None


def parse_groups(text: str) -> tuple[ParameterGroup, ...]:
    """Read `*bias:weight_decay=0 embedding*:lr_scale=0.1`: words of a pattern and its settings."""
    groups = []
    for word in text.split():
        pattern, _, rest = word.partition(":")
        label = f"param_groups '{word}'"
        if not pattern or not rest:
            raise SpecError(f"{label}: must be a pattern and settings, e.g. {_GROUP_EXAMPLE}")
        groups.append(ParameterGroup(pattern=pattern, **read_pairs(label, rest, ("lr_scale", "weight_decay"))))
    if not groups:
        raise SpecError(f"param_groups is empty: must be patterns and settings, e.g. {_GROUP_EXAMPLE}")
    return tuple(groups)


def resolve(run: TrainingText, workload: TrainingText, *, last_update: int | None, lr_factor: float = 1.0) -> Optimizer:
    """The optimizer of a run: what the run says, then what the workload says, then the defaults.

    `last_update` is how many updates the run makes, for schedules that end with it; `lr_factor` multiplies the learning
    rate.
    """
    own_kind = _kind_of(workload)
    text = OptimizerText.parse(run.optimizer or workload.optimizer or own_kind)
    settings = dict(_SETTINGS[text.kind]) | dict(text.settings)
    kind, momentum = text.kind, run.momentum
    if momentum is None and run.optimizer is None and workload.momentum:
        momentum = workload.momentum
    if momentum is not None:
        if kind not in _FAMILIES[0]:
            raise SpecError(f"momentum {momentum:g}: optimizer {kind} has none: remove momentum, or use nesterov")
        settings["momentum"] = momentum
        kind = "momentum" if kind == "sgd" and momentum else kind
    lr = run.lr if run.lr is not None else _lr_of(kind, own_kind, workload.lr)
    groups = run.param_groups or workload.param_groups
    schedule = Schedule.parse(run.schedule or workload.schedule or "constant")
    return Optimizer(
        kind=kind,
        lr=lr * lr_factor,
        schedule=schedule.ending_at(last_update),
        clip=run.clip if run.clip is not None else workload.clip,
        groups=parse_groups(groups) if groups else (),
        **settings,
    )


def describe(optimizer: Optimizer) -> str:
    """The optimizer as the user would write it, with the settings that differ from the defaults."""
    defaults: dict[str, Any] = dict(_SETTINGS[optimizer.kind])
    changed = {name: getattr(optimizer, name) for name in defaults}
    parts = [f"{name}={value:g}" for name, value in changed.items() if not math.isclose(value, defaults[name])]
    return ":".join([optimizer.kind, *parts])


def _kind_of(workload: TrainingText) -> Kind:
    if workload.optimizer:
        return OptimizerText.parse(workload.optimizer).kind
    return "momentum" if workload.momentum else "sgd"


def _lr_of(kind: str, own_kind: str, own_lr: float | None) -> float:
    """The workload's learning rate, if it is meant for this optimizer; else a usual one."""
    same_family = any(kind in family and own_kind in family for family in _FAMILIES)
    return own_lr if same_family and own_lr is not None else _DEFAULT_LR.get(kind, _SGD_LR)
