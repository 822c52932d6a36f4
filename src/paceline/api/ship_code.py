"""Writes workloads and functions that are defined in a notebook or a script to files, which hosts are sent.

cloudpickle puts functions and classes of `__main__`, of notebook cells and of the modules in the working directory into
the file by value. Everything else, such as installed packages, is imported on the host.
"""

import functools
import hashlib
import io
import linecache
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from paceline.errors import SpecError, message_of
from paceline.store.paths import shipped_code_folder, write_whole
from paceline.user_files import CELL_PREFIX
from paceline.workloads.shipped_code import encoded
from paceline.workloads.user_workload import WORKLOAD_VARIABLE, check_workload
from paceline.workloads.workload import Workload

_MAX_TEXT = 12 * 2**20
"""Characters of the compressed and encoded object: every host is sent at most 16 MiB of source files."""
_RANDOM_ID = re.compile(rb"[0-9a-f]{32}")
"""cloudpickle gives each class an id, which differs in every session; the hash of an object does not depend on it."""
_DOCSTRING = '"""{title} of a notebook or script. Written by Paceline, to be sent to hosts; do not edit."""'
_WORKLOAD_FILE = """
from paceline.workloads.shipped_code import load_shipped

SOURCES = {sources}
{variable} = load_shipped("{text}", SOURCES)
"""
_FUNCTION_FILE = """
import sys

from paceline.workloads.shipped_code import call_shipped

SOURCES = {sources}
call_shipped("{text}", SOURCES, sys.argv[1:])
"""


def ship_workload(workload: Workload, runs: Path) -> str:
    """The path of a file with the workload, which can be given in place of it; SpecError if it cannot be sent."""
    check_workload(workload, "the workload")
    content = _content(workload, f"the workload {workload.name}", _WORKLOAD_FILE, title=f"The workload {workload.name}")
    return str(_write(runs, workload.name, content))


def ship_function(function: Callable[..., object], arguments: Sequence[object], runs: Path) -> str:
    """The path of a script that calls the function with these arguments; SpecError if it cannot be sent."""
    name = getattr(function, "__name__", None) or type(function).__name__
    stem = re.sub(r"\W+", "_", name).strip("_").lower()[:48] or "function"
    content = _content(
        (function, tuple(arguments)), f"the function {name}", _FUNCTION_FILE, title=f"The function {name}"
    )
    return str(_write(runs, stem, content))


class _Content:
    def __init__(self, text: str, identity: str) -> None:
        self.text, self.identity = text, identity


def _content(value: object, what: str, template: str, *, title: str) -> _Content:
    data, sources = _pickle(value, what)
    text = encoded(data)
    if len(text) > _MAX_TEXT:
        raise SpecError(
            f"{what} holds {len(text) / 1e6:.0f} MB of data, and {_MAX_TEXT / 1e6:.0f} MB can be sent with it: read "
            "large data inside of its functions, e.g. with np.load, or give it as files"
        )
    identity = hashlib.sha256(template.encode() + _RANDOM_ID.sub(b"", data)).hexdigest()[:10]
    body = template.format(sources=_as_source(sources), text=text, variable=WORKLOAD_VARIABLE)
    return _Content(f"{_DOCSTRING.format(title=title)}\n{body}", identity)


def _write(runs: Path, name: str, content: _Content) -> Path:
    """Write the file, unless an equal object was written before. cloudpickle goes with it: hosts may not have it."""
    import cloudpickle

    folder = shipped_code_folder(runs, f"{name}-{content.identity}")
    file = folder / f"{name}.py"
    if not file.is_file():
        try:
            package = folder / "cloudpickle"
            shutil.copytree(
                Path(cloudpickle.__file__).parent,
                package,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
            write_whole(file, content.text.encode())
        except OSError as error:
            raise SpecError(
                f"cannot write to {folder}: {error.strerror}; choose another directory with runs="
            ) from None
    return file


def _pickle(value: object, what: str) -> tuple[bytes, dict[str, str]]:
    """The pickle of the value, and the source of every file or cell whose code is in it."""
    try:
        import cloudpickle
    except ImportError:
        raise SpecError(
            f"sending {what} to hosts needs cloudpickle: pip install 'paceline[notebook]', or put it into a file"
        ) from None
    sources: dict[str, str] = {}
    reduce_code = cloudpickle.Pickler.dispatch_table[CodeType]

    def reduce(code: CodeType) -> Any:
        source = "".join(linecache.getlines(code.co_filename))
        name = _stable_name(code.co_filename, source)
        if source:
            sources[name] = source
        return reduce_code(code.replace(co_filename=name))

    table = cloudpickle.Pickler.dispatch_table.new_child({CodeType: reduce})
    # The pickler reads its table from its class.
    pickler_class = type("_Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})
    stream = io.BytesIO()
    pickler = pickler_class(stream)
    with _own_modules_by_value(cloudpickle):
        try:
            pickler.dump(value)
        except Exception as error:
            raise SpecError(
                f"{what} cannot be sent to hosts: {message_of(error) or type(error).__name__}; make files, locks and "
                "connections inside of its functions, or put it into a file of its own"
            ) from error
    return stream.getvalue(), sources


def _stable_name(filename: str, source: str) -> str:
    """The name of a file; of a notebook cell, one that is the same in the next session of the notebook."""
    is_cell = filename.startswith("<") or "ipykernel_" in filename
    if not is_cell or filename.startswith(CELL_PREFIX):
        return filename
    return f"{CELL_PREFIX}{hashlib.sha256(source.encode()).hexdigest()[:8]}"


@contextmanager
def _own_modules_by_value(cloudpickle: ModuleType) -> Iterator[None]:
    """Also send what is imported from modules in the working directory, which hosts cannot import."""
    added = [module for module in list(sys.modules.values()) if _is_users(module)]
    known = cloudpickle.list_registry_pickle_by_value()
    added = [module for module in added if module.__name__ not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: object) -> bool:
    """Whether a module is a file below the working directory that is not installed."""
    file = getattr(module, "__file__", None)
    if not isinstance(module, ModuleType) or not isinstance(file, str) or module.__name__ == "__main__":
        return False
    path = Path(file).absolute()
    return path.is_relative_to(Path.cwd()) and not any(path.is_relative_to(folder) for folder in _installed_folders())


@functools.cache
def _installed_folders() -> tuple[Path, ...]:
    library = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own = Path(__file__).parents[1]
    return (*(Path(path) for path in library if path), Path(sys.prefix), own)


def _as_source(sources: Mapping[str, str]) -> str:
    """The sources as a Python dictionary with one literal for each line, for people who read the file."""
    entries = []
    for name, text in sources.items():
        lines = "\n".join(f"        {line!r}" for line in text.splitlines(keepends=True))
        entries.append(f"    {name!r}: (\n{lines}\n    ),")
    return "{\n" + "\n".join(entries) + "\n}"
