"""Checkpoints: the state that training continues from, as one safetensors file that every engine can read.

It holds the parameter values by name and the optimizer's state, such as velocities. The position in the data and the
state of every random choice follow from the seed and the update (see data.batches, train.dropout), so they are not
stored.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from paceline.errors import StoreError
from paceline.plan.roles import WORKER
from paceline.spec.optimizer import STATE_NAMES
from paceline.train.context import TaskContext
from paceline.workloads.parameters import Parameters, ParameterShape, Vector

_FORMAT = "paceline-checkpoint-1"
OUTER_VELOCITY = "outer-velocity"
"""The name of what an outer optimizer stores, of strategies that have one."""
_COUNT = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"update-(\d{1,18})\.safetensors")


class TrainingState(msgspec.Struct, frozen=True):
    """Parameters and optimizer state after an update."""

    update: int
    values: Parameters
    optimizer: Mapping[str, Parameters] = {}
    """What the optimizer stores for each parameter, by name (see `Optimizer.state_names` and
    OUTER_VELOCITY); empty for plain sgd."""
    other_workers: Mapping[int, Mapping[str, Parameters]] = {}
    """By the index of a worker other than the chief: what its own optimizer stores, in strategies whose workers have
    optimizers of their own."""


def file_name(update: int) -> str:
    return f"update-{update}.safetensors"


def checkpoint_updates(names: Iterable[str]) -> list[int]:
    """The updates of the checkpoints among these file names, the latest first."""
    return sorted((int(match[1]) for name in names if (match := _NAME.fullmatch(name))), reverse=True)


def encode(state: TrainingState) -> bytes:
    tensors = dict(state.values)
    for kind, parameters in state.optimizer.items():
        tensors |= {_tensor_name(kind, name): value for name, value in parameters.items()}
    for worker, own in state.other_workers.items():
        for kind, parameters in own.items():
            tensors |= {_tensor_name(_kind_of(kind, worker), name): value for name, value in parameters.items()}
    metadata = {"format": _FORMAT, "update": str(state.update)}
    return save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, metadata)


def update_of(path: Path) -> int:
    """The update of a checkpoint; StoreError if the file is damaged or not a checkpoint, or a value is not finite."""
    with _CheckpointFile(path) as file:
        for name in sorted(file.names):
            file.finite_tensor(name)
        return file.update


def read(path: Path, shapes: Sequence[ParameterShape], worker: int = 0) -> TrainingState:
    """Read a checkpoint of a model with these parameters; StoreError if the file is anything else.

    The optimizer's state is that of a worker's own optimizer if the checkpoint has it, else that of the chief.
    """
    with _CheckpointFile(path) as file:
        values = {shape.name: file.tensor(shape.name, shape) for shape in shapes}
        others = file.names - values.keys()
        kinds = {name.partition("/")[0] for name in others}
        stored = [kind for kind in kinds if kind.partition("@")[0] in (*STATE_NAMES, OUTER_VELOCITY)]
        optimizer = {}
        for kind in sorted(kind for kind in stored if "@" not in kind):
            own = _kind_of(kind, worker) if worker and _kind_of(kind, worker) in stored else kind
            optimizer[kind] = {shape.name: file.tensor(_tensor_name(own, shape.name), shape) for shape in shapes}
        if extra := others - {_tensor_name(kind, shape.name) for kind in stored for shape in shapes}:
            raise StoreError(
                f"{path} belongs to another model: it has a parameter '{min(extra)}' that this model lacks"
            )
        return TrainingState(file.update, values, optimizer)


def _tensor_name(kind: str, parameter: str) -> str:
    """The name in the file of what the optimizer stores for a parameter."""
    return f"{kind}/{parameter}"


def _kind_of(kind: str, worker: int) -> str:
    """What the optimizer of a worker other than the chief stores."""
    return f"{kind}@{worker}"


class _CheckpointFile:
    """An open checkpoint file. Whatever is wrong with the file becomes a StoreError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> "_CheckpointFile":
        if not self._path.is_file():
            raise StoreError(f"{self._path} is not a checkpoint: it is not a regular file")
        try:
            opening: Any = safe_open(self._path, framework="numpy")
            self._file = opening.__enter__()
            metadata = self._file.metadata() or {}
            self.names = set(self._file.keys())
        except (SafetensorError, OSError) as error:
            raise StoreError(f"{self._path} is not a checkpoint: {error}") from None
        if metadata.get("format") != _FORMAT or not _COUNT.fullmatch(metadata.get("update", "")):
            raise StoreError(f"{self._path} is not a checkpoint of Paceline: its metadata has no update number")
        self.update = int(metadata["update"])
        return self

    def __exit__(self, *_: object) -> None:
        self._file.__exit__(None, None, None)

    def tensor(self, name: str, shape: ParameterShape) -> Vector:
        if name not in self.names:
            raise StoreError(f"{self._path} belongs to another model: it has no '{name}'")
        stored = self._file.get_slice(name)
        if stored.get_dtype() != "F32" or tuple(stored.get_shape()) != shape.shape:
            raise StoreError(
                f"{self._path} belongs to another model: '{name}' is {stored.get_dtype()} {stored.get_shape()}, "
                f"not F32 {list(shape.shape)}"
            )
        return self.finite_tensor(name)

    def finite_tensor(self, name: str) -> Vector:
        if (dtype := self._file.get_slice(name).get_dtype()) != "F32":
            raise StoreError(f"{self._path}: '{name}' is {dtype}, not F32")
        tensor: Vector = self._file.get_tensor(name)
        if not np.isfinite(tensor).all():
            raise StoreError(f"{self._path}: '{name}' contains NaN or infinite values")
        return tensor


class InitialState:
    """The state that training starts from: initial values drawn from the seed, or a checkpoint."""

    def __init__(self, context: TaskContext) -> None:
        self._model, self._seed = context.model, context.job.seed
        restore = context.job.restore
        path = context.files.path(restore) if restore and context.files else None
        # Only workers have optimizers of their own.
        worker = context.job.index if context.job.role == WORKER else 0
        self._state = read(path, context.model.parameters, worker) if path else None
        self.update = self._state.update if self._state else 0

    def values(self, part: slice | None = None) -> Vector:
        """The values of all parameters as one vector, or a part of it."""
        return self._flat(self._state.values, part) if self._state else self._model.first(self._seed, part)

    def optimizer_state(self, part: slice | None = None) -> dict[str, Vector]:
        """By name, what the optimizer stored, in the same layout as `values`; what is missing starts at zero."""
        stored = self._state.optimizer if self._state else {}
        return {kind: self._flat(parameters, part) for kind, parameters in stored.items()}

    def _flat(self, parameters: Parameters, part: slice | None) -> Vector:
        flat = np.concatenate([parameters[shape.name].reshape(-1) for shape in self._model.parameters])
        return flat[part].copy() if part else flat
