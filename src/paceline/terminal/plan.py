"""Draws a plan: one row per run with its settings, its tasks on hosts and its stop rules."""

import shlex
from collections.abc import Sequence

from rich.table import Table

from paceline.plan.place import RunPlan
from paceline.present.numbers import MISSING
from paceline.spec.experiment import DEFAULTS
from paceline.spec.run_options import RunSpec
from paceline.spec.script import arguments

_IN_COLUMNS = {"workload", "size", "engine", "strategy", "layout", "batch", "seed", "hosts", "link", "cpus"}


def plan_table(plans: Sequence[RunPlan]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in (
        "#", "workload", "engine", "strategy", "hosts", "tasks", "batch", "seed", "repeat", "other settings", "until",
    ):  # fmt: skip
        table.add_column(column)
    for number, plan in enumerate(plans, 1):
        spec = plan.spec
        limits = [f"{name} {value}" for name, value in (("link", spec.link), ("cpus", spec.cpus)) if value is not None]
        table.add_row(
            str(number),
            shlex.join([plan.title, *arguments(spec.script, spec.param)]) if plan.is_script else plan.title,
            spec.engine,
            spec.strategy,
            " ".join([spec.hosts, *limits]),
            ", ".join(f"{place.task}@{place.host}" for place in plan.places),
            str(spec.batch) if plan.trains and not plan.is_script else MISSING,
            MISSING if plan.is_script else str(spec.seed),
            str(spec.repeat),
            _other_settings(spec) or MISSING,
            " or ".join(map(str, spec.stop)) or "it ends",
        )
    return table


def _other_settings(spec: RunSpec) -> str:
    """Those without a column of their own that are not the default."""
    others = {name: getattr(spec, name) for name in DEFAULTS if name not in _IN_COLUMNS}
    plain = [f"{name} {value}" for name, value in others.items() if value != DEFAULTS[name]]
    return " ".join([*plain, *(f"fault '{fault}'" for fault in spec.fault)])
