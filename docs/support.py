"""Writes docs/support.md: which workloads run with which engine and strategy. Run by `make docs`."""

from pathlib import Path

from paceline.engines.registry import ENGINES
from paceline.strategies.descriptor import Strategy
from paceline.strategies.registry import strategies
from paceline.workloads.registry import WORKLOADS
from paceline.workloads.workload import Workload

PAGE = Path(__file__).with_name("support.md")
_HEAD = """# What runs where

Written by `make docs` from the code; do not edit. Every cell with a yes is trained for real by `make test-all`.
"""


def page() -> str:
    columns = [(engine, strategy) for engine in ENGINES for strategy in strategies().values()]
    names = [f"{engine} {strategy.name}" for engine, strategy in columns]
    rows = [f"| workload | parameters | {' | '.join(names)} |", "|---|---:|" + "---|" * len(columns)]
    reasons: list[str] = []
    for sizes in WORKLOADS.values():
        for workload in sizes.values():
            cells = [_cell(workload, engine, strategy, reasons) for engine, strategy in columns]
            size = f"{workload.model.size:,}" if workload.model else ""
            rows.append(f"| `{workload.title}` | {size} | {' | '.join(cells)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([_HEAD, *rows, "", *notes]) + "\n"


def _cell(workload: Workload, engine: str, strategy: Strategy, reasons: list[str]) -> str:
    if refusal := strategy.reason_against(workload.refused):
        reason = refusal
    elif strategy.name not in ENGINES[engine].strategies or engine not in (workload.engines or ENGINES):
        reason = f"not on {engine}"
    else:
        return "yes"
    if reason not in reasons:
        reasons.append(reason)
    return f"no ({reasons.index(reason) + 1})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
