"""Finds the metrics and labels that the queries of a Grafana dashboard use."""

import re
from typing import Any, NamedTuple

_SELECTOR = re.compile(r"(paceline_\w+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")


class MetricUse(NamedTuple):
    """A metric, and the labels that it must have for a query to return series."""

    metric: str
    labels: frozenset[str]


def metrics_used_by(dashboard: dict[str, Any]) -> set[MetricUse]:
    """All metrics with the labels that the panels and variables need."""
    uses: set[MetricUse] = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            uses |= _metrics_in_query(target["expr"], set(_LEGEND.findall(target["legendFormat"])))
    for variable in dashboard["templating"]["list"]:
        if match := _LABEL_VALUES.fullmatch(variable.get("definition", "")):
            uses |= _metrics_in_query(match[1], {match[2]})
    return uses


def _metrics_in_query(expression: str, extra_labels: set[str]) -> set[MetricUse]:
    grouped = {label.strip() for labels in _GROUPED.findall(expression) for label in labels.split(",")}
    return {
        MetricUse(
            name,
            frozenset(
                {match.partition("=")[0].strip(" ~!") for match in filters.split(",") if match} | grouped | extra_labels
            ),
        )
        for name, filters in _SELECTOR.findall(expression)
    }
