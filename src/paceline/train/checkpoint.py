"""Checkpoints: all that training goes on from, as one safetensors file that any engine can read.

Values lie under their parameters' names, the optimizer's velocities beside them. The position in the data and the
state of every random choice follow from the update (see data.batches, train.dropout): they need no place of their own.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from paceline.errors import StoreError
from paceline.train.context import TaskContext
from paceline.workloads.parameters import Parameters, ParameterShape, Vector

_FORMAT = "paceline-checkpoint-1"
_VELOCITY = "velocity/"
_COUNT = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"update-(\d{1,18})\.safetensors")


class TrainingState(msgspec.Struct, frozen=True):
    """Training at one moment."""

    update: int
    values: Parameters
    velocity: Parameters = {}
    """Empty without momentum."""


def file_name(update: int) -> str:
    return f"update-{update}.safetensors"


def updates_among(names: Iterable[str]) -> list[int]:
    """Of which updates there are checkpoints, the last one first."""
    return sorted((int(match[1]) for name in names if (match := _NAME.fullmatch(name))), reverse=True)


def encode(state: TrainingState) -> bytes:
    tensors = state.values | {f"{_VELOCITY}{name}": velocity for name, velocity in state.velocity.items()}
    metadata = {"format": _FORMAT, "update": str(state.update)}
    return save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, metadata)


def update_of(path: Path) -> int:
    """The update a checkpoint was made at, if it is whole and one of ours; its values are not read."""
    with _Opened(path) as opened:
        return opened.update


def read(path: Path, shapes: Sequence[ParameterShape]) -> TrainingState:
    """A checkpoint of a model with these parameters; StoreError in a line if it is anything else."""
    with _Opened(path) as opened:
        values = {shape.name: opened.tensor(shape.name, shape) for shape in shapes}
        has_velocity = any(name.startswith(_VELOCITY) for name in opened.names)
        prefixed = {shape.name: f"{_VELOCITY}{shape.name}" for shape in shapes} if has_velocity else {}
        velocity = {shape.name: opened.tensor(prefixed[shape.name], shape) for shape in shapes if prefixed}
        if extra := opened.names - values.keys() - set(prefixed.values()):
            raise StoreError(f"{path} is of another model: it has '{min(extra)}', which this one has not")
        return TrainingState(opened.update, values, velocity)


class _Opened:
    """A file that may be anything: every surprise is a StoreError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> "_Opened":
        try:
            opening: Any = safe_open(self._path, framework="numpy")
            self._file = opening.__enter__()
            metadata = self._file.metadata() or {}
            self.names = set(self._file.keys())
        except (SafetensorError, OSError) as error:
            raise StoreError(f"{self._path} is no checkpoint: {error}") from None
        if metadata.get("format") != _FORMAT or not _COUNT.fullmatch(metadata.get("update", "")):
            raise StoreError(f"{self._path} is no checkpoint to go on from: it does not say which update it is of")
        self.update = int(metadata["update"])
        return self

    def __exit__(self, *_: object) -> None:
        self._file.__exit__(None, None, None)

    def tensor(self, name: str, shape: ParameterShape) -> Vector:
        if name not in self.names:
            raise StoreError(f"{self._path} is of another model: it has no '{name}'")
        found = self._file.get_slice(name)
        if found.get_dtype() != "F32" or tuple(found.get_shape()) != shape.shape:
            raise StoreError(
                f"{self._path} is of another model: '{name}' is {found.get_dtype()} {found.get_shape()}, "
                f"not F32 {list(shape.shape)}"
            )
        tensor: Vector = self._file.get_tensor(name)
        if not np.isfinite(tensor).all():
            raise StoreError(f"{self._path}: '{name}' has values that are no finite numbers")
        return tensor


class InitialState:
    """Where a task's training begins: at the seed's first values, or at a checkpoint's."""

    def __init__(self, context: TaskContext) -> None:
        self._model, self._seed = context.model, context.job.seed
        restore = context.job.restore
        self._state = read(Path(restore), context.model.parameters) if restore else None
        self.update = self._state.update if self._state else 0

    def values(self, part: slice | None = None) -> Vector:
        """Of all parameters as one vector, or of a part of it."""
        return self._flat(self._state.values, part) if self._state else self._model.first(self._seed, part)

    def velocity(self, part: slice | None = None) -> Vector | None:
        """Like the values; None where all are zero."""
        return self._flat(self._state.velocity, part) if self._state and self._state.velocity else None

    def _flat(self, parameters: Parameters, part: slice | None) -> Vector:
        whole = np.concatenate([parameters[shape.name].reshape(-1) for shape in self._model.parameters])
        return whole[part].copy() if part else whole
