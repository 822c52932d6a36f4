"""Loads a user's own workload from a file or a module, checks it, and reads its batches."""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import get_args

import numpy as np

from paceline.data.batches import Array, Batch, Examples, Share
from paceline.data.registry import DATASETS
from paceline.errors import RunError, SpecError, UserCodeError, unknown
from paceline.spec.values import NAME as NAME_PATTERN
from paceline.workloads.model import Loss
from paceline.workloads.workload import BatchOfArrays, Workload

WORKLOAD_VARIABLE = "WORKLOAD"
"""The variable of a user's file that contains the workload."""


def is_user_workload(name: str) -> bool:
    """Whether `name` is a file or module with a user's workload, and not the name of a built-in one."""
    return name.endswith(".py") or (":" in name and "." in name.partition(":")[0])


def load_user_workload(name: str) -> Workload:
    """The workload in the variable WORKLOAD of `path/to/file.py`, or in `package.module:variable`."""
    # Cached by the hash of the file: this is called many times, and the file may print when it is loaded.
    return _load(name, code_hash(name))


@cache
def _load(name: str, _code_hash: str) -> Workload:
    module, variable = (_load_file(Path(name)), WORKLOAD_VARIABLE) if name.endswith(".py") else _load_module(name)
    workload = getattr(module, variable, None)
    if not isinstance(workload, Workload):
        raise SpecError(f"{name} has no {variable} that is a paceline.Workload: define {variable} = Workload(...)")
    _check(workload, name)
    return workload


def code_hash(name: str) -> str:
    """A short hash of the file of the workload; 'unknown' if it cannot be read."""
    try:
        return hashlib.sha256(Path(code_path(name)).read_bytes()).hexdigest()[:12]
    except (OSError, ValueError):  # It cannot be read, or its name is not valid for a file.
        return "unknown"


def absolute(name: str) -> str:
    """The name of the same workload for a task with another working directory."""
    return str(Path(name).absolute()) if name.endswith(".py") else name


def code_path(name: str) -> str:
    """The path of the file of a user's workload, as in tracebacks; empty if it is not known."""
    if name.endswith(".py"):
        return str(Path(name).absolute())
    try:
        spec = importlib.util.find_spec(name.partition(":")[0])
    except (ImportError, ValueError):
        return ""
    return (spec.origin or "") if spec else ""


def user_traceback(error: BaseException, file: str) -> str:
    """The part of the traceback that starts in the user's file; all of it if the file is not in it."""
    summary = traceback.TracebackException.from_exception(error)
    files = [frame.filename for frame in summary.stack]
    if file in files:
        summary.stack = traceback.StackSummary.from_list(summary.stack[files.index(file) :])
    return "".join(summary.format(chain=file not in files))


def user_examples(workload: Workload) -> Examples:
    """The data set of a workload that uses no built-in one."""
    return workload.data() if workload.data else UserExamples(workload)


class UserExamples:
    """A data set made from the functions `train` and `test` of a user's workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def stream(self, share: Share) -> "UserStream":
        assert self._workload.train
        return UserStream(self._workload.train, share)

    def test(self) -> list[Batch]:
        return [_batch(arrays) for arrays in self._workload.test()] if self._workload.test else []


class UserStream:
    """The batches of the user's iterable in its order; at its end a new one is created for the next epoch."""

    def __init__(self, train: Callable[[Share], Iterable[BatchOfArrays]], share: Share) -> None:
        self._train, self._share = train, share
        self._batches: Iterator[BatchOfArrays] = iter(())
        self._last: tuple[int, Batch] | None = None
        """The last step and its batch: the same step may be requested again."""

    def at(self, step: int) -> Batch:
        if self._last is None or self._last[0] != step:
            self._last = (step, self._next())
        return self._last[1]

    def _next(self) -> Batch:
        arrays = next(self._batches, None)
        if arrays is None:
            self._batches = iter(self._train(self._share))
            arrays = next(self._batches, None)
        if arrays is None:
            raise RunError("train returned no batches: it must return an iterable of tuples of NumPy arrays")
        batch = _batch(arrays)
        if len(batch.target) != self._share.batch:
            sizes = f"{len(batch.target)} examples: it must have share.batch = {self._share.batch}"
            raise RunError(f"train returned a batch of {sizes}")
        return batch


def _batch(arrays: BatchOfArrays) -> Batch:
    if not isinstance(arrays, tuple) or len(arrays) < 2:
        raise RunError("a batch must be a tuple of at least two NumPy arrays: the inputs, and the target last")
    *inputs, target = (_array(array) for array in arrays)
    if len({len(array) for array in (*inputs, target)}) != 1:
        lengths = [len(array) for array in (*inputs, target)]
        raise RunError(f"the arrays of a batch have different lengths, {lengths}: the first axis must be the examples")
    return Batch(tuple(inputs), target)


def _array(array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise RunError(
            f"a batch contains a {type(array).__name__}: it must contain only NumPy arrays with at least one axis"
        )
    # The types that frameworks compute with. Frameworks also need writable and contiguous arrays.
    dtype = np.float32 if array.dtype.kind == "f" else np.int64
    return np.require(array, dtype, ["C", "W"])


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SpecError(f"there is no file {path}: give the path of your workload, or a name from `paceline workloads`")
    name = f"paceline_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.absolute().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # The file may import modules next to it.
    try:
        with redirect_stdout(sys.stderr):  # What the file prints must not mix with the output of --json.
            spec.loader.exec_module(module)
    except Exception as error:
        raise _load_error(error, str(path), str(path.absolute())) from error
    return module


def _load_module(name: str) -> tuple[ModuleType, str]:
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        with redirect_stdout(sys.stderr):
            return importlib.import_module(module), attribute
    except ModuleNotFoundError as error:
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise _load_error(error, name, code_path(name)) from error
        raise SpecError(
            f"there is no module {error.name}, needed for {name}: install it, or run in the directory that contains it"
        ) from None
    except Exception as error:
        raise _load_error(error, name, code_path(name)) from error


def _load_error(error: BaseException, name: str, file: str) -> UserCodeError:
    return UserCodeError(f"{name} cannot be loaded: {type(error).__name__}: {error}", user_traceback(error, file))


def _check(workload: Workload, name: str) -> None:
    if not NAME_PATTERN.fullmatch(workload.name):
        raise SpecError(f"{name}: the name '{workload.name}' must consist of at most 48 characters a-z, 0-9 and '-'")
    if workload.dataset is not None and workload.dataset not in DATASETS:
        raise SpecError(f"{name}: {unknown('dataset', workload.dataset, DATASETS)}")
    if workload.loss not in get_args(Loss):
        raise SpecError(f"{name}: {unknown('loss', workload.loss, get_args(Loss))}")
    if workload.momentum and workload.model and workload.model.by_rows:
        raise SpecError(
            f"{name}: momentum needs all weights, but a sparse model transfers only those a batch uses: set momentum=0"
        )
    if not (workload.model or workload.blocks or workload.user_models):
        raise SpecError(f"{name}: the workload has no model: give model, torch or tensorflow")
    if workload.model and workload.user_models:
        raise SpecError(
            f"{name}: the workload has two models: give model, which runs on every engine, or torch and tensorflow"
        )
    if sum(source is not None for source in (workload.dataset, workload.data, workload.train)) != 1:
        raise SpecError(f"{name}: give exactly one of dataset, data and train as the source of the examples")
    if workload.model:
        try:
            _ = workload.model.size
        except ValueError as error:
            raise SpecError(f"{name}: {error}") from None
