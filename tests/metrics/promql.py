"""What the queries of a dashboard ask for: names of metrics, and labels they must have."""

import re
from typing import Any, NamedTuple

_SELECTOR = re.compile(r"(paceline_\w+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")


class Wanted(NamedTuple):
    metric: str
    labels: frozenset[str]


def wanted_by(dashboard: dict[str, Any]) -> set[Wanted]:
    """Everything that must be served for all panels and variables to show something."""
    found: set[Wanted] = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            found |= _of_query(target["expr"], set(_LEGEND.findall(target["legendFormat"])))
    for variable in dashboard["templating"]["list"]:
        if match := _LABEL_VALUES.fullmatch(variable.get("definition", "")):
            found |= _of_query(match[1], {match[2]})
    return found


def _of_query(expression: str, more: set[str]) -> set[Wanted]:
    grouped = {label.strip() for labels in _GROUPED.findall(expression) for label in labels.split(",")}
    return {
        Wanted(
            name,
            frozenset({match.partition("=")[0].strip(" ~!") for match in filters.split(",") if match} | grouped | more),
        )
        for name, filters in _SELECTOR.findall(expression)
    }
