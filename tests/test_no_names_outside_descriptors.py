"""No code depends on the name of an engine, a strategy or a kind of hosts, except where that thing is described.

What differs between them is a fact of the descriptor: a new one needs no change elsewhere.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.engines.registry import engines
from paceline.hosts.registry import host_kinds
from paceline.strategies.registry import strategies

SOURCE = Path(__file__).parents[1] / "src" / "paceline"
NAMES = {*engines(), *host_kinds(), *strategies()}
DESCRIPTORS = ("engines/", "observe/descriptor.py", "strategies/", *(f"hosts/{kind}/" for kind in host_kinds()))
"""Folders that describe engines, strategies and kinds of hosts."""
ALLOWED = {
    "observe/observer.py": "the names of Python modules that a script imports",
    "plan/layout.py": "`single` is also the name of a layout",
    "workloads/workload.py": "users give a model per engine in fields named after the engine",
}
"""Files with such a name in a test or as a key, each with the reason."""


def names_tested(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines that compare with such a name, look it up, match it or have it as a key."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                tested = [node.left, *node.comparators]
            case ast.MatchValue():
                tested = [node.value]
            case ast.Dict():
                tested = [key for key in node.keys if key]
            case ast.Subscript():
                tested = [node.slice]
            case _:
                continue
        for part in tested:
            items = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
            for item in items:
                if isinstance(item, ast.Constant) and item.value in NAMES:
                    yield item.lineno, str(item.value)


def test_no_name_is_tested_outside_descriptors() -> None:
    found = {}
    for file in SOURCE.rglob("*.py"):
        relative = file.relative_to(SOURCE).as_posix()
        if not relative.startswith(DESCRIPTORS):
            found[relative] = list(names_tested(ast.parse(file.read_text())))
    wrong = [
        f"{file}:{line} tests the name '{name}': make what differs a fact of its descriptor"
        for file, lines in found.items()
        if file not in ALLOWED
        for line, name in lines
    ]
    assert not wrong, "\n".join(wrong)
    assert [file for file in ALLOWED if not found.get(file)] == [], "these files need no exception"


@pytest.mark.parametrize(
    "code",
    [
        'x.strategy == "allreduce"',
        'x in ("ps-sync", "other")',
        'match x:\n    case "torch": pass',
        '{"netns": 1}',
        'ENGINES["tensorflow"]',
    ],
)
def test_every_form_of_test_is_found(code: str) -> None:
    assert list(names_tested(ast.parse(code)))


def test_other_uses_of_a_name_are_allowed() -> None:
    assert not list(names_tested(ast.parse('default = "torch"\nsay("use ps-sync")\nx == "other"')))
