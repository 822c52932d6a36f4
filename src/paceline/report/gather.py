"""Stored runs become a report: results grouped, answers found, tables made, figures drawn of the telling runs."""

from collections.abc import Sequence

import msgspec

from paceline.analyze.load import load_result
from paceline.analyze.repeats import Group, group_repeats
from paceline.report import curves, gantt, hosts, workers
from paceline.report.answer import Answer, answers
from paceline.report.choose import Chosen, choose
from paceline.report.faults import faults_sheet
from paceline.report.figure import Figure
from paceline.report.material import RunMaterial, machine_of
from paceline.report.overview import overview
from paceline.report.per_host import per_host
from paceline.report.sheet import Sheet
from paceline.report.sheets import sheets
from paceline.report.verdicts import GroupVerdict, verdicts
from paceline.store.paths import RunPaths
from paceline.store.result import Result
from paceline.store.run import making_sense


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that a report says, but for its figures."""

    title: str
    results: list[Result]
    groups: list[Group]
    answers: list[Answer]
    verdicts: list[GroupVerdict]
    sheets: list[Sheet]


class RunFigures(msgspec.Struct, frozen=True):
    chosen: Chosen
    figures: list[Figure]


class Gallery(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a report."""

    overview: list[Figure]
    runs: list[RunFigures]


def gather(title: str, runs: Sequence[RunPaths]) -> Report:
    results = [load_result(paths) for paths in runs]
    machines = {paths.id: machine for paths in runs if (machine := machine_of(paths))}
    groups = group_repeats(results)
    also = [per_host(groups, machines), faults_sheet(results)]
    return Report(
        title=title,
        results=results,
        groups=groups,
        answers=answers(groups),
        verdicts=verdicts(groups),
        sheets=[*sheets(groups), *(sheet for sheet in also if sheet.rows)],
    )


def draw(report: Report, runs: Sequence[RunPaths]) -> Gallery:
    paths = {one.id: one for one in runs}
    drawn, tests = [], []
    for chosen in choose(report.groups, report.answers):
        # One run's tables at a time: they may be large.
        material = RunMaterial(chosen.result, paths[chosen.result.run])
        with making_sense(paths[chosen.result.run].directory):
            drawn.append(RunFigures(chosen, figures_of(material)))
            tests.append((f"{chosen.title} ({chosen.result.run})", curves.TestCurve(material)))
    both = curves.together(tests)
    return Gallery(overview=[*overview(report.groups), *([both] if both else [])], runs=drawn)


def figures_of(run: RunMaterial) -> list[Figure]:
    """Those a run has data for."""
    made = [
        curves.quality(run),
        curves.updates_per_second(run),
        workers.phase_bars(run.result),
        hosts.host_metrics(run),
        gantt.shares_over_time(run),
        gantt.timeline(run),
        workers.steps_per_worker(run.result),
        workers.staleness(run),
    ]
    return [figure for figure in made if figure and figure.views]
