from typing import Any

from metrics.promql import Wanted, wanted_by


def test_every_metric_and_label_of_a_query_is_found() -> None:
    target = {
        "expr": 'sum by (run, le) (rate(paceline_a_bucket{run=~"$run", worker!="x"}[1m])) / max(paceline_b)',
        "legendFormat": "{{run}} {{host}}",
    }
    variable = {"definition": 'label_values(paceline_c{run=~"$run"}, worker)'}
    dashboard: dict[str, Any] = {"panels": [{"targets": [target]}], "templating": {"list": [variable, {}]}}
    assert wanted_by(dashboard) == {
        Wanted("paceline_a_bucket", frozenset({"run", "worker", "le", "host"})),
        Wanted("paceline_b", frozenset({"run", "le", "host"})),
        Wanted("paceline_c", frozenset({"run", "worker"})),
    }
