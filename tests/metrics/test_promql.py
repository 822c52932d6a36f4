from typing import Any

from metrics.promql import MetricUse, metrics_used_by


def test_every_metric_and_label_of_a_query_is_returned() -> None:
    target = {
        "expr": 'sum by (run, le) (rate(paceline_a_bucket{run=~"$run", worker!="x"}[1m])) / max(paceline_b)',
        "legendFormat": "{{run}} {{host}}",
    }
    variable = {"definition": 'label_values(paceline_c{run=~"$run"}, worker)'}
    dashboard: dict[str, Any] = {"panels": [{"targets": [target]}], "templating": {"list": [variable, {}]}}
    assert metrics_used_by(dashboard) == {
        MetricUse("paceline_a_bucket", frozenset({"run", "worker", "le", "host"})),
        MetricUse("paceline_b", frozenset({"run", "le", "host"})),
        MetricUse("paceline_c", frozenset({"run", "worker"})),
    }
