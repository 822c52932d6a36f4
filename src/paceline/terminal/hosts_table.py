"""The table of `paceline hosts check`."""

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console

from paceline.control.host_check import explain_start_failure, software_problem
from paceline.control.inspect_hosts import InspectedHost
from paceline.control.probe_links import Link
from paceline.present.links import LEGEND, link_table
from paceline.store.result import PairLink
from paceline.terminal.tables import align_right, plain_table

_BYTES_PER_GB = 1e9
_NS_PER_US = 1e3


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """One machine."""

    host: str
    machine: str
    """What the user calls it."""
    address: str
    problem: str | None
    """Why it cannot take part in a run, with the remedy; None if it can."""
    inspected: InspectedHost

    def as_json(self, links: Sequence[Link]) -> dict[str, Any]:
        """What is known of the machine, with the links from it to others."""
        hello, clock = self.inspected.hello, self.inspected.clock
        facts: dict[str, Any] = {
            "host": self.host,
            "machine": self.machine,
            "address": self.address,
            "problem": self.problem,
            "clock_uncertainty_us": round(clock.uncertainty_ns / _NS_PER_US, 1) if clock else None,
        }
        facts["links"] = [
            {"to": link.receiver, "mb_s": link.mb_s, "rtt_ms": link.rtt_s and link.rtt_s * 1e3}
            for link in links
            if link.sender == self.host
        ]
        return facts | {
            name: getattr(hello, name) if hello else None
            for name in ("cores", "memory_bytes", "free_disk_bytes", "python", "paceline", "engines", "addresses")
        }


def host_rows(inspected: Sequence[InspectedHost], machines: Sequence[str], hosts: str) -> list[HostRow]:
    """A row per machine; `hosts` is what the user gave to `paceline hosts`."""
    return [
        HostRow(
            host=one.host,
            machine=machine,
            address=one.address,
            problem=_problem(one, hosts),
            inspected=one,
        )
        for one, machine in zip(inspected, machines, strict=True)
    ]


def _problem(inspected: InspectedHost, hosts: str) -> str | None:
    if inspected.error:
        return explain_start_failure(inspected.error, hosts)
    return software_problem(inspected.hello, hosts) if inspected.hello else None


def print_hosts(rows: Sequence[HostRow], links: Sequence[Link], console: Console) -> None:
    """The table of machines, the problems of those that cannot take part, and the measured links."""
    engines = sorted({name for row in rows if row.inspected.hello for name in row.inspected.hello.engines})
    numbers = ("cores", "memory (GB)", "free disk (GB)", "clock ± (µs)")
    table = plain_table("host", "machine", "address", *numbers, "python", "paceline", *engines)
    align_right(table, *numbers)
    for row in rows:
        table.add_row(row.host, row.machine, row.address, *_facts(row.inspected, engines))
    console.print(table)
    for row in rows:
        if row.problem:
            console.print(f"{row.host} ({row.machine}): {row.problem}", markup=False, soft_wrap=True)
    if links:
        headings, link_rows = link_table([_pair_link(link) for link in links])
        table = plain_table(*headings)
        align_right(table, *headings[1:])
        for link_row in link_rows:
            table.add_row(*link_row)
        console.print(f"\nlinks between hosts: {LEGEND}", markup=False, style="dim")
        console.print(table)
    ready = sum(row.problem is None for row in rows)
    console.print(f"\n{ready} of {len(rows)} machines can take part in a run", markup=False)


def _pair_link(link: Link) -> PairLink:
    def milliseconds(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * 1e3

    times = {"rtt_ms": milliseconds(link.rtt_s), "rtt_min_ms": milliseconds(link.rtt_min_s)}
    return PairLink(sender=link.sender, receiver=link.receiver, mb_s=link.mb_s, **times)


def _facts(inspected: InspectedHost, engines: Sequence[str]) -> list[str]:
    hello, clock = inspected.hello, inspected.clock
    if hello is None:
        return ["-"] * (6 + len(engines))
    disk = f"{hello.free_disk_bytes / _BYTES_PER_GB:.0f}" if hello.free_disk_bytes is not None else "-"
    return [
        str(hello.cores),
        f"{hello.memory_bytes / _BYTES_PER_GB:.0f}",
        disk,
        f"{clock.uncertainty_ns / _NS_PER_US:.0f}" if clock else "-",
        hello.python,
        hello.paceline or "-",
        *(hello.engines.get(name) or "-" for name in engines),
    ]
