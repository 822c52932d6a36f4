"""Writes docs/grafana/paceline.json, a Grafana dashboard of the live metrics. Run by `make docs`."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "grafana" / "paceline.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_RUN = '{run=~"$run"}'
_WORKER = '{run=~"$run", worker="$worker"}'
_WINDOW = "[$__rate_interval]"
_WIDTH, _HEIGHT = 12, 8
"""Size of a panel in units of Grafana's grid, which is 24 units wide."""
_STATUS_COLOURS = {
    # Names of Grafana's palette, which adapt to the theme.
    "starting": "blue", "training": "green", "ok": "dark-green", "failed": "red", "diverged": "orange",
    "aborted": "purple",
}  # fmt: skip

Query = tuple[str, str]
"""PromQL, and the legend of its series."""


def dashboard() -> dict[str, Any]:
    return {
        "title": "Paceline",
        "uid": "paceline",
        "description": "Live metrics of paceline run --metrics-port.",
        "tags": ["paceline"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": _variables()},
        "panels": _set_positions(_panels()),
    }


def _panels() -> list[dict[str, Any]]:
    return [
        _stat("Status", "none", [(f"paceline_run_status{_RUN} == 1", "{{run}} {{status}}")], 6, name_only=True),
        _stat("Progress to the nearest stop rule", "percentunit", [
            (f"max by (run) (paceline_run_progress_ratio{_RUN})", "{{run}}"),
        ], 6),
        _stat("Runs finished", "none", [
            ("sum by (status) (paceline_sweep_runs_finished_total) > 0", "{{status}}"),
            ("max(paceline_sweep_runs)", "of"),
        ], 6),
        _stat("Incidents", "none", [(f"sum by (run) (paceline_run_incidents_total{_RUN})", "{{run}}")], 6),
        _lines("Updates per second", "ops", [
            (f"sum by (run) (rate(paceline_run_updates_total{_RUN}{_WINDOW}))", "{{run}}"),
        ]),
        _lines("Examples per second", "ops", [
            (f"sum by (run, worker) (rate(paceline_worker_examples_total{_RUN}{_WINDOW}))", "{{run}} {{worker}}"),
        ], stacked=True),
        _lines("Steps per second", "ops", [
            (f"sum by (run, worker) (rate(paceline_worker_steps_total{_RUN}{_WINDOW}))", "{{run}} {{worker}}"),
        ]),
        _lines("Loss", "none", [
            (f"paceline_worker_loss{_RUN}", "{{run}} {{worker}}"),
            (f"paceline_run_test_loss{_RUN}", "{{run}} test"),
        ]),
        _for_each_worker(_lines("Time of $worker by phase", "percentunit", [(
            f"sum by (phase) (rate(paceline_worker_phase_seconds_total{_WORKER}{_WINDOW})) / "
            f"scalar(sum(rate(paceline_worker_phase_seconds_total{_WORKER}{_WINDOW})))",
            "{{phase}}",
        )], stacked=True)),
        _lines("Staleness: updates by other workers during a step", "none", [
            (f"histogram_quantile(0.95, sum by (run, worker, le) (rate("
             f"paceline_worker_staleness_updates_bucket{_RUN}{_WINDOW})))", "{{run}} {{worker}} 95 %"),
            (f"sum by (run, worker) (rate(paceline_worker_staleness_updates_sum{_RUN}{_WINDOW})) / "
             f"sum by (run, worker) (rate(paceline_worker_staleness_updates_count{_RUN}{_WINDOW}))",
             "{{run}} {{worker}} mean"),
        ]),
        _lines("Cores used by each host's tasks", "none", [
            (f"sum by (run, host) (rate(paceline_host_cpu_seconds_total{_RUN}{_WINDOW}))", "{{run}} {{host}}"),
        ]),
        _lines("Busiest core of each host's machine", "percentunit", [
            (f"max by (run, host) (rate(paceline_host_core_busy_seconds_total{_RUN}{_WINDOW}))", "{{run}} {{host}}"),
        ]),
        _lines("Threads ready but without a core", "none", [
            (f"sum by (run, task) (rate(paceline_task_run_wait_seconds_total{_RUN}{_WINDOW}))", "{{run}} {{task}}"),
        ]),
        _lines("Memory of each host's tasks", "bytes", [(f"paceline_host_memory_bytes{_RUN}", "{{run}} {{host}}")]),
        _lines("Network", "Bps", [(
            f"sum by (run, host, side, direction) (rate(paceline_host_network_bytes_total{_RUN}{_WINDOW}))",
            "{{run}} {{host}} {{side}} {{direction}}",
        )]),
        _lines("Packets per second", "pps", [(
            f"sum by (run, host, side, direction) (rate(paceline_host_network_packets_total{_RUN}{_WINDOW}))",
            "{{run}} {{host}} {{side}} {{direction}}",
        )]),
        _lines("Disk", "Bps", [(
            f"sum by (run, host, direction) (rate(paceline_host_disk_bytes_total{_RUN}{_WINDOW}))",
            "{{run}} {{host}} {{direction}}",
        )]),
        _lines("Cores used by each task", "none", [
            (f"sum by (run, task) (rate(paceline_task_cpu_seconds_total{_RUN}{_WINDOW}))", "{{run}} {{task}}"),
        ]),
        _lines("Memory of each task", "bytes", [
            (f"paceline_task_resident_memory_bytes{_RUN}", "{{run}} {{task}}"),
        ]),
        _lines("Accuracy on the test set", "percentunit", [
            (f"paceline_run_test_accuracy_ratio{_RUN}", "{{run}}"),
        ]),
    ]  # fmt: skip


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        _label_variable("run", "Run", "label_values(paceline_run_info, run)"),
        _label_variable("worker", "Worker", f"label_values(paceline_worker_steps_total{_RUN}, worker)"),
    ]


def _label_variable(name: str, label: str, query: str) -> dict[str, Any]:
    """A variable that selects any number of the values of a label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # Update the values when the time range changes.
        "sort": 3,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _for_each_worker(panel: dict[str, Any]) -> dict[str, Any]:
    panel["gridPos"]["w"] = 24  # The copies of the panel share a row.
    return panel | {"repeat": "worker", "repeatDirection": "h", "maxPerRow": 4}


def _stat(title: str, unit: str, queries: list[Query], width: int, *, name_only: bool = False) -> dict[str, Any]:
    text_mode = "name" if name_only else "auto"
    options = {"colorMode": "background", "textMode": text_mode, "reduceOptions": {"calcs": ["lastNotNull"]}}
    by_name = [
        {
            "matcher": {"id": "byRegexp", "options": f".* {status}"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for status, colour in _STATUS_COLOURS.items()
    ]
    panel = _panel("stat", title, unit, queries, width, _HEIGHT // 2) | {"options": options}
    panel["fieldConfig"]["overrides"] = by_name if name_only else []
    for target in panel["targets"]:
        target |= {"instant": True, "range": False}
    return panel


def _lines(title: str, unit: str, queries: list[Query], *, stacked: bool = False) -> dict[str, Any]:
    custom = {"fillOpacity": 60 if stacked else 0, "stacking": {"mode": "normal" if stacked else "none"}}
    panel = _panel("timeseries", title, unit, queries, _WIDTH, _HEIGHT)
    panel["fieldConfig"]["defaults"] |= {"custom": {**custom, "showPoints": "never"}, "min": 0}
    tooltip = {"mode": "multi", "sort": "desc"}
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    return panel | {"options": {"tooltip": tooltip, "legend": legend}}


def _panel(kind: str, title: str, unit: str, queries: list[Query], width: int, height: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for number, (expression, legend) in enumerate(queries)
    ]
    return {
        "type": kind,
        "title": title,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "gridPos": {"w": width, "h": height},
    }


def _set_positions(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The panels with their positions, row by row; all panels of a row have the same height."""
    x = y = 0
    for number, panel in enumerate(panels, 1):
        position = panel["gridPos"]
        panel["id"] = number
        position |= {"x": x, "y": y}
        x += position["w"]
        if x >= 24:
            x, y = 0, y + position["h"]
    return panels


def text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
