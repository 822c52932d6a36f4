"""A user's own workload: found in a file or a module, checked, its batches handed out step by step."""

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

NAME = "WORKLOAD"
"""What a file calls its workload."""


def is_user_workload(name: str) -> bool:
    """Whether a workload is asked for by file or module, and not by name."""
    return name.endswith(".py") or (":" in name and "." in name.partition(":")[0])


def load_user_workload(name: str) -> Workload:
    """`path/to/file.py`, whose workload is called WORKLOAD, or `package.module:name`."""
    # Once for each state of the file: it is asked for again and again, and may print.
    return _load(name, code_hash(name))


@cache
def _load(name: str, _mark: str) -> Workload:
    module, attribute = (_file(Path(name)), NAME) if name.endswith(".py") else _module(name)
    found = getattr(module, attribute, None)
    if not isinstance(found, Workload):
        raise SpecError(f"{name} has no {attribute} that is a paceline.Workload: define {attribute} = Workload(...)")
    _check(found, name)
    return found


def code_hash(name: str) -> str:
    """Changes with the file that the workload is in."""
    try:
        return hashlib.sha256(Path(where_code_is(name)).read_bytes()).hexdigest()[:12]
    except (OSError, ValueError):  # not there, or no name that a file could have
        return "unknown"


def absolute(name: str) -> str:
    """The same workload wherever a task's working directory is."""
    return str(Path(name).absolute()) if name.endswith(".py") else name


def where_code_is(name: str) -> str:
    """The file that a user's workload is in, as tracebacks name it."""
    if name.endswith(".py"):
        return str(Path(name).absolute())
    try:
        found = importlib.util.find_spec(name.partition(":")[0])
    except (ImportError, ValueError):
        return ""
    return (found.origin or "") if found else ""


def users_part(error: BaseException, file: str) -> str:
    """The traceback from where the user's code comes in; all of it if it never does."""
    summary = traceback.TracebackException.from_exception(error)
    files = [frame.filename for frame in summary.stack]
    if file in files:
        summary.stack = traceback.StackSummary.from_list(summary.stack[files.index(file) :])
    return "".join(summary.format(chain=file not in files))


def user_examples(workload: Workload) -> Examples:
    return workload.data() if workload.data else UserExamples(workload)


class UserExamples:
    """A user's iterables as a data set."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    def stream(self, share: Share) -> "UserStream":
        assert self._workload.train
        return UserStream(self._workload.train, share)

    def test(self) -> list[Batch]:
        return [_batch(arrays) for arrays in self._workload.test()] if self._workload.test else []


class UserStream:
    """Batches in the order in which the iterable has them; at its end it is made anew."""

    def __init__(self, make: Callable[[Share], Iterable[BatchOfArrays]], share: Share) -> None:
        self._make, self._share = make, share
        self._left: Iterator[BatchOfArrays] = iter(())
        self._last: tuple[int, Batch] | None = None

    def at(self, step: int) -> Batch:
        if self._last is None or self._last[0] != step:
            self._last = (step, self._next())
        return self._last[1]

    def _next(self) -> Batch:
        arrays = next(self._left, None)
        if arrays is None:
            self._left = iter(self._make(self._share))
            arrays = next(self._left, None)
        if arrays is None:
            raise RunError("train gave no batch at all: it must be an iterable of tuples of NumPy arrays")
        batch = _batch(arrays)
        if len(batch.target) != self._share.batch:
            raise RunError(
                f"train gave a batch of {len(batch.target)} examples where {self._share.batch} were asked for"
            )
        return batch


def _batch(arrays: BatchOfArrays) -> Batch:
    if not isinstance(arrays, tuple) or len(arrays) < 2:
        raise RunError("a batch must be a tuple of NumPy arrays: inputs, and the target last")
    *inputs, target = (_array(array) for array in arrays)
    if len({len(array) for array in (*inputs, target)}) != 1:
        raise RunError(f"arrays of a batch differ in length: {[len(array) for array in (*inputs, target)]}")
    return Batch(tuple(inputs), target)


def _array(array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise RunError(f"a batch has a {type(array).__name__} where a NumPy array should be")
    # What frameworks compute with; and writable and whole, as they want it.
    kind = np.float32 if array.dtype.kind == "f" else np.int64
    return np.require(array, kind, ["C", "W"])


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SpecError(f"there is no file {path}: give the path of your workload, or a name from `paceline workloads`")
    name = f"paceline_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.absolute().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # Its neighbours are its own to import.
    try:
        with redirect_stdout(sys.stderr):  # What it prints must not get among the results of --json.
            spec.loader.exec_module(module)
    except Exception as error:
        raise _users_fault(error, str(path), str(path.absolute())) from error
    return module


def _module(name: str) -> tuple[ModuleType, str]:
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        with redirect_stdout(sys.stderr):
            return importlib.import_module(module), attribute
    except ModuleNotFoundError as error:
        if not error.name or not f"{module}.".startswith(f"{error.name}."):
            raise _users_fault(error, name, where_code_is(name)) from error
        raise SpecError(f"there is no module {error.name}, of {name}: is it installed, or in this directory?") from None
    except Exception as error:
        raise _users_fault(error, name, where_code_is(name)) from error


def _users_fault(error: BaseException, name: str, file: str) -> UserCodeError:
    return UserCodeError(f"{name} cannot be loaded: {type(error).__name__}: {error}", users_part(error, file))


def _check(workload: Workload, name: str) -> None:
    if not NAME_PATTERN.fullmatch(workload.name):
        raise SpecError(f"{name}: the name '{workload.name}' must be of a-z, 0-9 and '-', 48 at most")
    if workload.dataset is not None and workload.dataset not in DATASETS:
        raise SpecError(f"{name}: {unknown('dataset', workload.dataset, DATASETS)}")
    if workload.loss not in get_args(Loss):
        raise SpecError(f"{name}: {unknown('loss', workload.loss, get_args(Loss))}")
    if workload.momentum and workload.model and workload.model.by_rows:
        raise SpecError(f"{name}: a sparse model moves only the weights a batch touches: it cannot have momentum")
    makers = [workload.model, workload.torch, workload.tensorflow, workload.blocks]
    if not any(makers):
        raise SpecError(f"{name}: the workload has no model: give model, torch or tensorflow")
    if workload.model and (workload.torch or workload.tensorflow):
        raise SpecError(f"{name}: give model, which runs on every engine, or torch and tensorflow, not both")
    if sum(one is not None for one in (workload.dataset, workload.data, workload.train)) != 1:
        raise SpecError(f"{name}: say where the examples come from, by one of dataset, data and train")
    if workload.model:
        try:
            _ = workload.model.size
        except ValueError as error:
            raise SpecError(f"{name}: {error}") from None
