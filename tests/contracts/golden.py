"""Golden files, and the functions that compare them with what Paceline does now."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STORED_RUNS = HERE / "runs"
COMMAND = [sys.executable, "-m", "paceline"]
DEADLINE_S = 120
"""Seconds after which a command fails the test."""
_JSON_TYPES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def paceline(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The finished command `paceline ARGUMENTS`."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


def without_additions(new: Any, old: Any) -> Any:
    """`new` without the keys that `old` does not have, at any depth: keys may be added to a document."""
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: without_additions(value, old[key]) for key, value in new.items() if key in old}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [without_additions(*pair) for pair in zip(new, old, strict=True)]
    return new


def json_lines(completed: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The objects that a command with --json printed; fails if stdout has a line that is not a JSON object."""
    lines = [json.loads(line) for line in completed.stdout.splitlines()]
    assert lines, completed.stderr
    assert all(isinstance(line, dict) for line in lines)
    return lines


def golden(name: str) -> dict[str, Any]:
    """The content of a golden file, JSON or TOML."""
    text = (HERE / "golden" / name).read_text()
    content: dict[str, Any] = json.loads(text) if name.endswith(".json") else tomllib.loads(text)
    return content


def assert_equal(file: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> None:
    """Nothing was removed, renamed or changed, and everything that was added is in the golden file."""
    problems = [
        f"{name} was {value!r} and is {actual.get(name, 'missing')!r}: users rely on it, so change the code, not {file}"
        for name, value in expected.items()
        if name not in actual or actual[name] != value
    ]
    problems += [
        f"{name} ({value!r}) is new: if it is meant to stay, add it to tests/contracts/golden/{file}"
        for name, value in actual.items()
        if name not in expected
    ]
    assert not problems, "\n".join(problems)


def assert_contains(file: str, expected: Mapping[str, str], documents: Iterable[Any]) -> None:
    """Every document has every golden key with its type; keys that are not in the golden file are allowed.

    A golden key is a path, see `values_at`. Its type is one or several of the JSON types and `absent`: `number|null`.
    Keys inside a value that is null or absent are skipped, but each golden key must occur in at least one document.
    """
    problems, seen = [], set()
    for document in documents:
        for path, types in expected.items():
            found_types = {_type_of(value) for value in values_at(document, path)}
            if found_types - {"absent"}:
                seen.add(path)
            allowed = {*types.split("|"), *(["integer"] if "number" in types else [])}
            problems += [f"{path} is {found}, not {types}" for found in sorted(found_types - allowed)]
    problems += [f"{path} does not occur in any document" for path in expected if path not in seen]
    lines = "\n".join(dict.fromkeys(problems))
    assert not problems, f"keys of tests/contracts/golden/{file} may not be removed, renamed or change type:\n{lines}"


_ABSENT = object()


def values_at(value: Any, path: str) -> Iterator[Any]:
    """The values that a path leads to; _ABSENT where an object does not have the last key of the path.

    `a[].b` leads to the key b of every item of the array a, `a.*.b` to the key b of every value of the object a.
    """
    head, _, rest = path.partition(".")
    if not isinstance(value, dict):
        return  # The golden entry of the parent says whether the parent may be null.
    name = head.removesuffix("[]")
    children = list(value.values()) if name == "*" else [value.get(name, _ABSENT)]
    if head != name:
        children = [item for child in children if isinstance(child, list) for item in child]
    for child in children:
        if rest:
            yield from values_at(child, rest)
        else:
            yield child


def _type_of(value: Any) -> str:
    return "absent" if value is _ABSENT else _JSON_TYPES[type(value)]
