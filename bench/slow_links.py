"""Low-communication training on slow links: makes the tables of docs/guide/slow-networks.md.

Usage, as root on Linux, on a machine that does nothing else: `python -m bench.slow_links [--write]`. All runs take
about half an hour. Runs that are stored in --runs already are not made again, so an interrupted benchmark continues.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

import paceline
from paceline.store.result import Result

_PAGE = Path(__file__).parents[1] / "docs" / "guide" / "slow-networks.md"
_BEGIN, _END = "<!-- made by bench/slow_links.py: begin -->", "<!-- made by bench/slow_links.py: end -->"


class Row(msgspec.Struct, frozen=True):
    """A way to exchange less; the first one is the baseline."""

    options: str
    """As on the command line."""
    fields: dict[str, Any]


ROWS = (
    Row("--strategy allreduce", {"strategy": "allreduce"}),
    Row("--strategy local-sgd --set sync_every=100", {"strategy": "local-sgd", "sync_every": 100}),
    Row("--strategy diloco --set sync_every=100", {"strategy": "diloco", "sync_every": 100}),
    Row("--strategy allreduce --set compress=topk:0.01", {"strategy": "allreduce", "compress": "topk:0.01"}),
    Row("--strategy allreduce --set compress=powersgd:4", {"strategy": "allreduce", "compress": "powersgd:4"}),
    Row("--strategy allreduce --set compress=int8", {"strategy": "allreduce", "compress": "int8"}),
)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The medians of the runs of one row."""

    reached: bool
    """Whether every run reached the target."""
    seconds: float
    updates: float
    sent_mb: float
    """What the network interface of a host sent, with all headers, as the mean over the hosts."""
    accuracy: float
    loss: float
    cause: str
    """The bottleneck that was found most often."""


def figures(results: Sequence[Result]) -> Figures:
    """The medians of repeated runs."""
    causes = [result.verdict.cause for result in results]
    return Figures(
        reached=all(result.to_target_s is not None for result in results),
        seconds=statistics.median(result.to_target_s or result.train_s for result in results),
        updates=statistics.median(result.updates for result in results),
        sent_mb=statistics.median(_sent_mb(result) for result in results),
        accuracy=statistics.median(result.final.accuracy or 0.0 for result in results),
        loss=statistics.median(result.final.loss or 0.0 for result in results),
        cause=max(causes, key=causes.count),
    )


def _sent_mb(result: Result) -> float:
    return statistics.mean(host.external.tx_mb_s_mean for host in result.hosts) * result.train_s


def table(rows: Sequence[tuple[str, Figures]], target: str) -> Iterator[str]:
    """The lines of a Markdown table; the first row is the baseline that the others are compared with."""
    columns = ("run", f"time to {target} (s)", "sooner", "updates", "sent per host (MB)", "fewer bytes", "test loss")
    yield f"| {' | '.join(columns)} | bottleneck |"
    yield "|---|---:|---:|---:|---:|---:|---:|---|"
    baseline = rows[0][1]
    # The baseline needs at least as long and as many bytes as it had when the time limit ended it.
    at_least = "" if baseline.reached else "over "
    for options, found in rows:
        time = f"{found.seconds:.3g}" if found.reached else f"not in {found.seconds:.0f} ({found.accuracy:.1%})"
        sooner, fewer = "", ""
        if found is not baseline and found.reached:
            sooner = f"{at_least}{baseline.seconds / found.seconds:.2g}×"
            fewer = f"{at_least}{baseline.sent_mb / found.sent_mb:.3g}×"
        cells = (f"`{options}`", time, sooner, f"{found.updates:,.0f}", f"{found.sent_mb:.3g}", fewer)
        yield f"| {' | '.join(cells)} | {found.loss:.3f} | {found.cause} |"


def _measure(arguments: argparse.Namespace, hosts: int, link: str) -> list[str]:
    layout = " ".join("w" * hosts)
    rows = []
    for row in ROWS:
        results = paceline.run(
            arguments.workload,
            layout=layout,
            hosts="netns",
            link=link,
            stop=[f"accuracy={arguments.accuracy}", f"seconds={arguments.seconds:g}"],
            eval_every=arguments.eval_every,
            repeat=arguments.repeat,
            name="slow-links",
            runs=arguments.runs,
            check=False,
            progress=False,
            **row.fields,
        )
        rows.append((row.options, figures(results)))
        print(f"{hosts} hosts, {link}, {row.options}: {rows[-1][1]}", flush=True)
    return [f"**{hosts} hosts, links of {link}**", "", *table(rows, f"{arguments.accuracy:.0%}"), ""]


def write_between(page: Path, lines: Sequence[str]) -> None:
    """Replace what is between the two marks in a page."""
    before, _, rest = page.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page.write_text("\n".join([f"{before}{_BEGIN}", *lines, f"{_END}{after}"]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.slow_links", description=__doc__)
    parser.add_argument("--workload", default="lenet")
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--link", nargs="+", default=["10mbit", "100mbit"])
    parser.add_argument("--accuracy", type=float, default=0.97)
    parser.add_argument("--eval-every", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit for the training of each run")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--runs", default="runs/slow-links")
    parser.add_argument("--write", action="store_true", help=f"replace the tables in {_PAGE.name}")
    arguments = parser.parse_args()
    lines = [line for link in arguments.link for hosts in arguments.hosts for line in _measure(arguments, hosts, link)]
    print("\n".join(lines))
    if arguments.write:
        write_between(_PAGE, lines)


if __name__ == "__main__":
    main()
