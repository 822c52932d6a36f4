"""Runs as a short text for an AI assistant: what was run, under which conditions, the bottleneck, and what to try next.

The text has at most `MOST_CHARACTERS` characters, which is below 2,000 tokens: long lists are cut, and say so.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from paceline.analyze.bottleneck.remedies import configuration_of
from paceline.analyze.comparison import Comparison, compare
from paceline.errors import StoreError, one_line
from paceline.present import numbers
from paceline.present.bottleneck import account_text, advice_and_command, bottleneck_summary, second_cause
from paceline.present.notes import highest_background_load, incident_text, run_notes
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import StoredRun

MOST_CHARACTERS = 6_000
_MOST_LINE = 300
_MOST_ITEMS = 8
"""Workers, hosts, configurations or differences that are listed."""
_HEAD = (
    "Measured by Paceline, which trains a model on a cluster and records every step of every worker. The bottleneck "
    "says where the time went, with evidence. Do not claim more than the evidence says. MB is 10^6 bytes; an update is "
    "one change of the global parameters."
)


def assistant_text(results: Sequence[Result]) -> str:
    """The text about one run, or about several and their comparison."""
    sections = [_HEAD]
    if len(results) == 1:
        sections += _one_run(results[0])
    else:
        sections += _several(compare(results), results)
    return _limited(sections)


def _one_run(result: Result) -> list[str]:
    return [
        _section("What was run", _what(result)),
        _section("Conditions", _conditions([result])),
        _section("Measured", _measured(result), most=4 * _MOST_ITEMS),
        _section("Bottleneck", _bottleneck(result)),
        _section("Cautions", run_notes(result)),
        _section("Next", [*_remedies(result), *_commands(result.run, result.dir)]),
    ]


def _several(comparison: Comparison, results: Sequence[Result]) -> list[str]:
    rows = []
    for name, group in zip(comparison.names, comparison.groups, strict=True):
        run = (group.ok or group.results)[0]
        rows.append(
            f"{name}: {len(group.ok)} of {len(group.results)} runs ok, {_throughput(run)}, {_quality(run)}; "
            f"bottleneck {bottleneck_summary(run.verdict)}; first run {run.run}"
        )
    best = [answer.sentence for answer in comparison.best_configurations]
    differences = [difference.sentence for difference in comparison.differences]
    representative = next((r for group in comparison.groups for r in group.ok), results[0])
    return [
        _section(
            "What was run", [f"{len(results)} runs in {len(comparison.groups)} configurations", *_what(representative)]
        ),
        _section("Conditions", _conditions(results)),
        _section("Configurations", rows),
        _section("Best for each goal", best),
        _section("Differences from the baseline", differences),
        _section("Left out", [f"{result.run}: {reason}" for result, reason in comparison.excluded]),
        _section(f"Bottleneck of {representative.run}", _bottleneck(representative)),
        _section(
            "Next", [*_remedies(representative), f"paceline compare {' '.join(r.run for r in results[:_MOST_ITEMS])}"]
        ),
    ]


def _what(result: Result) -> list[str]:
    lines = [
        f"{result.title} on {result.engine}, strategy {result.strategy}, layout '{result.layout}' "
        f"({len(result.workers)} workers), batch {result.batch}, seed {result.seed}, {result.hosts_kind} hosts",
        f"data: {result.data}",
    ]
    try:
        paths = RunPaths(Path(result.dir))
        configuration = configuration_of(StoredRun(paths).header, paths.directory.parent)
        lines.append(f"command: {configuration.command()}")
    except StoreError:
        pass  # The directory is gone or damaged; the result says enough.
    return lines


def _conditions(results: Sequence[Result]) -> list[str]:
    first = results[0]
    versions = ", ".join(f"{name} {version}" for name, version in first.versions.items() if version)
    loads = sorted(highest_background_load(result)[0] for result in results)
    load = f"{loads[0]:.1f}" if loads[0] == loads[-1] else f"{loads[0]:.1f} to {loads[-1]:.1f}"
    machine = "one machine" if first.one_machine else "a machine for each host"
    cores = f"{first.machine_cores} cores, " if first.machine_cores else ""
    software = [f"{versions}; {first.started_at}" if versions else first.started_at]
    return [f"{cores}{machine}, background load {load} cores", *software]


def _measured(result: Result) -> list[str]:
    status = f"status {result.status}" + (f" ({result.reason})" if result.reason else "")
    lines = [
        f"{status}; {result.updates:,} updates in {numbers.seconds(result.train_s)}, {_throughput(result)}, "
        f"{_quality(result)}; startup {numbers.seconds(result.first_step_s)}"
    ]
    if result.reached:
        lines.append(f"ended by {result.reached.rule} after {numbers.seconds(result.reached.at_s)}")
    lines += _first(
        (
            f"{worker.task} on {worker.host}: {worker.steps} steps, {numbers.phase_shares(worker.phases)}"
            + (f", staleness {worker.staleness.mean:.1f}" if worker.staleness else "")
            for worker in result.workers
        ),
        len(result.workers),
        "workers",
    )
    lines += _first(
        (
            f"{host.host} ({' '.join(host.tasks)}): {host.cpu_cores_mean:.2f} cores, "
            f"memory {host.memory_mb_max:.0f} MB, received {host.external.rx_mb_s_mean:.2f} MB/s, "
            f"sent {host.external.tx_mb_s_mean:.2f} MB/s"
            for host in result.hosts
        ),
        len(result.hosts),
        "hosts",
    )
    lines += _first((f"fault {fault.what}" for fault in result.faults), len(result.faults), "faults")
    incidents = (f"incident at {incident_text(incident)}" for incident in result.incidents)
    return lines + _first(incidents, len(result.incidents), "incidents")


def _bottleneck(result: Result) -> list[str]:
    verdict = result.verdict
    lines = [bottleneck_summary(verdict), *(f"evidence: {line}" for line in verdict.evidence)]
    lines += [f"all of the time: {text}" for text in [account_text(verdict)] if text]
    return lines + [f"second cause: {text}" for text in [second_cause(verdict)] if text]


def _remedies(result: Result) -> list[str]:
    lines = []
    for remedy in result.verdict.remedy:
        advice, command = advice_and_command(remedy)
        lines.append(f"{advice}: {command}" if command else advice)
    return lines


def _commands(run: str, directory: str) -> list[str]:
    runs = Path(directory).parent
    option = "" if str(runs) == "runs" else f" --runs {runs}"
    return [f"paceline show {run}{option}", f"paceline export {run} --format perfetto{option}"]


def _throughput(result: Result) -> str:
    return f"{numbers.number(result.updates_per_s)} updates/s, {numbers.number(result.examples_per_s)} examples/s"


def _quality(result: Result) -> str:
    accuracy = f", accuracy {numbers.accuracy(result.final.accuracy)}" if result.final.accuracy is not None else ""
    return f"test loss {numbers.loss(result.final.loss)}{accuracy}"


def _first(lines: Iterable[str], total: int, what: str, most: int = _MOST_ITEMS) -> list[str]:
    """The first lines, and how many were left out."""
    shown = list(islice(lines, most))
    return shown + ([f"… {total - len(shown)} more {what}"] if total > len(shown) else [])


def _section(title: str, lines: Sequence[str], most: int = _MOST_ITEMS) -> str:
    shown = [line if len(line) <= _MOST_LINE else line[: _MOST_LINE - 1] + "…" for line in map(one_line, lines)]
    return (
        "\n".join([f"## {title}", *(f"- {line}" for line in _first(shown, len(shown), "lines", most))]) if shown else ""
    )


def _limited(sections: Sequence[str]) -> str:
    """The sections, of which the longest lose their last lines until the text is short enough."""
    lines = [section.splitlines() for section in sections if section]
    while sum(len(line) + 1 for section in lines for line in section) + len(lines) > MOST_CHARACTERS:
        longest = max((section for section in lines if len(section) > 2), key=lambda s: sum(map(len, s)), default=None)
        if longest is None:
            break
        if longest[-1] == "- …":
            longest.pop(-2)
        else:
            longest[-1] = "- …"
    return "\n\n".join("\n".join(section) for section in lines) + "\n"
