"""Writes docs/support.md from the code: which workload runs where, and why not. `make docs`"""

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
        for one in sizes.values():
            cells = [_cell(one, engine, strategy, reasons) for engine, strategy in columns]
            size = f"{one.model.size:,}" if one.model else ""
            rows.append(f"| `{one.title}` | {size} | {' | '.join(cells)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([_HEAD, *rows, "", *notes]) + "\n"


def _cell(one: Workload, engine: str, strategy: Strategy, reasons: list[str]) -> str:
    if refusal := strategy.reason_against(one.refused):
        reason = refusal
    elif strategy.name not in ENGINES[engine].strategies or engine not in (one.engines or ENGINES):
        reason = f"not on {engine}"
    else:
        return "yes"
    if reason not in reasons:
        reasons.append(reason)
    return f"no ({reasons.index(reason) + 1})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
