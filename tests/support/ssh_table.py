"""Collects the figures of runs over ssh, for a table at the end of a test session."""

import json
from pathlib import Path
from typing import Any, NamedTuple

ROWS: list["Row"] = []
_HEADINGS = (
    "run over ssh",
    "loss, ssh",
    "loss, local",
    "first step, ssh (s)",
    "first step, local (s)",
    "clock ± (µs)",
    "agent round trip (µs)",
)


class Row(NamedTuple):
    """One configuration. Clock and agent are those of the worst host."""

    name: str
    loss: float
    local_loss: float
    first_step_s: float
    local_first_step_s: float
    clock_uncertainty_us: float
    agent_round_trip_us: float


def add(name: str, remote: dict[str, Any], local: dict[str, Any]) -> None:
    """Add a row for two runs of the same configuration, given by the objects that --json printed."""
    events = [json.loads(line) for line in (Path(remote["dir"]) / "events.jsonl").read_text().splitlines()]
    joined = [event for event in events if event["event"] == "joined"]
    ROWS.append(
        Row(
            name,
            remote["final"]["loss"],
            local["final"]["loss"],
            remote["first_step_s"],
            local["first_step_s"],
            max(host["clock_uncertainty_us"] for host in remote["hosts"]),
            max(event["agent_round_trip_ns"] for event in joined) / 1e3,
        )
    )


def table() -> list[str]:
    width = max(len(row.name) for row in ROWS)
    lines = [f"{_HEADINGS[0]:{width}}  {'  '.join(_HEADINGS[1:])}"]
    for row in ROWS:
        values = [f"{row.loss:.6f}", f"{row.local_loss:.6f}"]
        values += [f"{row.first_step_s:.1f}", f"{row.local_first_step_s:.1f}"]
        values += [f"{row.clock_uncertainty_us:.0f}", f"{row.agent_round_trip_us:.0f}"]
        cells = [value.rjust(len(heading)) for value, heading in zip(values, _HEADINGS[1:], strict=True)]
        lines.append(f"{row.name:{width}}  {'  '.join(cells)}")
    return lines
