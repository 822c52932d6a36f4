"""Loads a user's own workload from a file or a module, and checks it."""

import hashlib
import importlib
import importlib.util
import math
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterator
from contextlib import redirect_stdout
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import get_args

from paceline import user_files
from paceline.data.registry import DATASETS
from paceline.errors import SpecError, UserCodeError, message_of, shorten, unknown
from paceline.spec.optimizer import TrainingText, resolve
from paceline.spec.stop import METRIC_NAME, TARGETS, WORK
from paceline.spec.values import NAME as NAME_PATTERN
from paceline.workloads.layers import Sigmoid
from paceline.workloads.model import Loss, metrics_of
from paceline.workloads.shipped_code import loaded_sources
from paceline.workloads.workload import Metric, Workload

_MAX_CODE_FILES = 500
_MAX_CODE_BYTES = 16 * 2**20
_LIBRARIES = (
    *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(user_files.__file__).parent),
)
"""Folders of code that is not the user's: Python, installed packages and Paceline."""
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
    check_workload(workload, name)
    return workload


def code_hash(name: str) -> str:
    """A short hash of the file of the workload; 'unknown' if it cannot be read."""
    return content_hash(Path(code_path(name)))


def content_hash(path: Path) -> str:
    """A short hash of a file; 'unknown' if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except (OSError, ValueError):  # It cannot be read, or its name is not valid for a file.
        return "unknown"


def code_files(name: str) -> list[tuple[str, Path]]:
    """What a host needs to load the workload: its file first, then the Python files beside it and in packages there.

    Each has its path relative to the folder of the workload. Empty for a built-in workload and for a module, which must
    be installed on every host.
    """
    if not name.endswith(".py"):
        return []
    main = Path(name).absolute()
    return [(str(path.relative_to(main.parent)), path) for path in python_files(main.parent, main)]


def python_files(folder: Path, main: Path) -> list[Path]:
    """`main`, and the Python files of a folder and of the packages in it; SpecError if there are too many to send."""
    others = (path for path in _python_files(folder) if path != main)
    files = [main, *islice(others, _MAX_CODE_FILES)]
    if len(files) > _MAX_CODE_FILES or sum(path.stat().st_size for path in files) > _MAX_CODE_BYTES:
        raise SpecError(
            f"{folder} has more than {_MAX_CODE_FILES} Python files or {_MAX_CODE_BYTES >> 20} MiB of them, which "
            "would go to every host: put your code into a folder of its own"
        )
    return files


def _python_files(folder: Path) -> Iterator[Path]:
    """The Python files of a folder and of the packages in it."""
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".py" and entry.is_file():
            yield entry
        elif entry.is_dir() and (entry / "__init__.py").is_file():
            yield from _python_files(entry)


def code_path(name: str) -> str:
    """The path of the file of a user's workload, as in tracebacks; empty if it is not known."""
    if name.endswith(".py"):
        return str(Path(name).absolute())
    try:
        spec = importlib.util.find_spec(name.partition(":")[0])
    except (ImportError, ValueError):
        return ""
    return (spec.origin or "") if spec else ""


def user_code(name: str) -> frozenset[str]:
    """The file of a user's workload and the notebook cells that define it, as in tracebacks."""
    return frozenset({code_path(name)}) | loaded_sources()


def user_traceback(error: BaseException, files: Collection[str]) -> str:
    """The part of the traceback that starts in one of the user's files, without frames of installed packages; empty if
    none is in it."""
    summary = traceback.TracebackException.from_exception(error)
    first = next((number for number, frame in enumerate(summary.stack) if frame.filename in files), None)
    if first is None:
        return ""
    kept = [frame for frame in summary.stack[first:] if frame.filename in files or not _is_library(frame.filename)]
    summary.stack = traceback.StackSummary.from_list(kept)
    return shorten("".join(summary.format(chain=False)))


def _is_library(filename: str) -> bool:
    """Whether a frame's file belongs to Python, to an installed package or to Paceline."""
    return filename.startswith("<frozen ") or any(filename.startswith(folder) for folder in _LIBRARIES)


def passes_through(error: BaseException, files: Collection[str]) -> bool:
    """Whether the error was raised in one of the user's files, or in what they call."""
    return any(frame.f_code.co_filename in files for frame, _ in traceback.walk_tb(error.__traceback__))


def place_in(error: BaseException, files: Collection[str]) -> str | None:
    """Where the error was raised: the last line of the user's files in its traceback; None if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else None


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SpecError(f"there is no file {path}: give the path of your workload, or a name from `paceline workloads`")
    name = user_files.register(path)
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
    except (Exception, SystemExit) as error:
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
    except (Exception, SystemExit) as error:
        raise _load_error(error, name, code_path(name)) from error


def _load_error(error: BaseException, name: str, file: str) -> UserCodeError:
    if isinstance(error, SystemExit):
        call = f"sys.exit({message_of(error)})"
        line = f"it calls {call}: remove the call, or put it below if __name__ == '__main__'"
        return UserCodeError(f"{name} cannot be loaded: {line}", "")
    line = f"{type(error).__name__}: {message_of(error)}"
    # The error of a file that cannot be parsed has no frame in it, but says where the mistake is.
    where = user_traceback(error, [file]) or "".join(traceback.format_exception_only(error))
    return UserCodeError(f"{name} cannot be loaded: {line}", where)


def check_workload(workload: Workload, name: str) -> None:
    """Raise SpecError, which begins with `name`, if the workload cannot be trained."""
    if not NAME_PATTERN.fullmatch(workload.name):
        raise SpecError(f"{name}: the name '{workload.name}' must consist of at most 48 characters a-z, 0-9 and '-'")
    if workload.dataset is not None and workload.dataset not in DATASETS:
        raise SpecError(f"{name}: {unknown('dataset', workload.dataset, DATASETS)}")
    if isinstance(workload.loss, str) and workload.loss not in get_args(Loss):
        raise SpecError(f"{name}: {unknown('loss', workload.loss, get_args(Loss))}")
    _check_metrics(workload, name)
    for field in ("train_step", "evaluate"):
        if getattr(workload, field) is not None and not callable(getattr(workload, field)):
            raise SpecError(f"{name}: {field} must be a function")
    if workload.model and (workload.train_step or not isinstance(workload.loss, str)):
        raise SpecError(f"{name}: a model of layers has its loss in Model(loss=…): remove loss and train_step")
    if workload.momentum and workload.model and workload.model.by_rows:
        raise SpecError(
            f"{name}: momentum needs all weights, but a sparse model transfers only those a batch uses: set momentum=0"
        )
    _check_training(workload, name)
    if not (workload.model or workload.blocks or workload.user_models):
        raise SpecError(f"{name}: the workload has no model: give model, torch or tensorflow")
    if workload.model and workload.user_models:
        raise SpecError(
            f"{name}: the workload has two models: give model, which runs on every engine, or torch and tensorflow"
        )
    if sum(source is not None for source in (workload.dataset, workload.data, workload.train)) != 1:
        raise SpecError(f"{name}: give exactly one of dataset, data and train as the source of the examples")
    last_layers = workload.model.layers[-1:] if workload.model else ()
    if workload.trained_for == "logistic" and any(isinstance(layer, Sigmoid) for layer in last_layers):
        raise SpecError(
            f"{name}: the loss 'logistic' applies the sigmoid itself: remove Sigmoid() at the end of the model"
        )
    if workload.model:
        try:
            _ = workload.model.size
        except ValueError as error:
            raise SpecError(f"{name}: {error}") from None


def _check_metrics(workload: Workload, name: str) -> None:
    """Refuse metrics that cannot be computed, and declarations that stop rules could not use."""
    known = metrics_of(workload.trained_for)
    for metric in workload.metrics:
        if isinstance(metric, Metric):
            _check_own_metric(metric, workload, name)
        elif metric not in known:
            own = f"; of a metric that evaluate returns, write Metric('{metric}', 'higher') or 'lower'"
            refusal = unknown("metric", str(metric), known) if known else f"its loss has no metric '{metric}'"
            raise SpecError(f"{name}: {refusal}{own if workload.evaluate else ''}")
    if not (workload.test or workload.dataset or workload.data):
        for field in ("metrics", "evaluate"):
            if getattr(workload, field):
                raise SpecError(f"{name}: {field} needs a test set: give test, or remove {field}")


def _check_own_metric(metric: Metric, workload: Workload, name: str) -> None:
    if not isinstance(metric.name, str) or not METRIC_NAME.fullmatch(metric.name):
        raise SpecError(
            f"{name}: metric {metric.name!r}: a name must be a letter, then up to 47 letters, digits and _.@-"
        )
    if metric.name in (*WORK, *TARGETS):
        raise SpecError(f"{name}: metric '{metric.name}' is one of Paceline's stop rules: choose another name")
    if metric.better not in ("higher", "lower"):
        raise SpecError(f"{name}: metric '{metric.name}' has better={metric.better!r}: must be 'higher' or 'lower'")
    if not workload.evaluate:
        raise SpecError(f"{name}: metric '{metric.name}' needs a function evaluate that returns it")


def _check_training(workload: Workload, name: str) -> None:
    """Refuse an optimizer, a schedule or groups that cannot be read."""
    try:
        resolve(TrainingText(), workload.training, last_update=None if workload.schedule is None else sys.maxsize)
    except SpecError as error:
        raise SpecError(f"{name}: {error}") from None
    if workload.clip is not None and not 0 < workload.clip < math.inf:
        raise SpecError(f"{name}: clip {workload.clip!r}: must be above 0 and finite")
