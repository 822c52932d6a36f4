"""Python objects that a user defined in a notebook or a script, as source files that tasks on any host can load.

`paceline.api.ship_code` writes such a file. It holds the object as text, and the source of the cells that define it.
"""

import ast
import base64
import linecache
import pickle
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from paceline.errors import SpecError, message_of

_loaded: set[str] = set()


def encoded(data: bytes) -> str:
    """The pickle as text for a source file."""
    return base64.b64encode(zlib.compress(data)).decode()


def loaded_sources() -> frozenset[str]:
    """The names of the cells and files whose functions this process has loaded."""
    return frozenset(_loaded)


def load_shipped(text: str, sources: Mapping[str, str]) -> Any:
    """The object. Tracebacks through its functions show the lines of the cells that define them."""
    for name, source in sources.items():
        # Without a modification time, the entry stays although there is no such file.
        _loaded.add(name)
        linecache.cache.setdefault(name, (len(source), None, source.splitlines(keepends=True), name))
    try:
        return pickle.loads(zlib.decompress(base64.b64decode(text)))
    except ImportError as error:
        raise SpecError(
            f"an object of the notebook needs a module that this host does not have ({message_of(error)}): install it "
            "on every host, or define what you need in the notebook"
        ) from error


def call_shipped(text: str, sources: Mapping[str, str], arguments: list[str]) -> None:
    """Call a function of the notebook; `arguments` are `name=value` words, where each value is a Python literal."""
    function: Callable[..., object]
    function, positional = load_shipped(text, sources)
    named = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in arguments)}
    function(*positional, **named)
