"""The measured links between hosts as a table of text."""

import re
from collections.abc import Sequence

from paceline.present.numbers import MISSING, number
from paceline.store.result import PairLink

FROM_TO = "from \\ to"
LEGEND = "MB/s of one TCP connection · median round-trip time (ms)"


def link_table(links: Sequence[PairLink]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a matrix if every pair was measured, else one row per link."""
    hosts = list(dict.fromkeys(host for link in links for host in (link.sender, link.receiver)))
    by_pair = {(link.sender, link.receiver): link for link in links}
    if len(by_pair) < len(hosts) * (len(hosts) - 1):
        rows = [[link.sender, link.receiver, number(link.mb_s), number(link.rtt_ms)] for link in links]
        return ["from", "to", "MB/s", "RTT (ms)"], rows
    hosts.sort(key=lambda host: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", host)])
    return [FROM_TO, *hosts], [[one, *(_cell(by_pair.get((one, other))) for other in hosts)] for one in hosts]


def _cell(link: PairLink | None) -> str:
    return MISSING if link is None else f"{number(link.mb_s)} · {number(link.rtt_ms)}"
