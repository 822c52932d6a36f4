"""The examples in CONTRIBUTING.md work as they are printed."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from paceline import pipeline
from paceline.analyze.bottleneck import judge as judge_module
from paceline.analyze.bottleneck import remedies, suspects
from paceline.analyze.bottleneck.facts import Facts, HostFacts, Phases, WorkerFacts
from paceline.analyze.bottleneck.judge import judge
from paceline.analyze.bottleneck.remedies import Configuration, configuration_of
from paceline.data.dataset import PreparedData
from paceline.spec.load import experiment
from paceline.store.header import ResumePoint

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "plugins" / "outside_package"


def blocks(heading: str, language: str) -> list[str]:
    """The code blocks in this language in the section with this heading."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("heading", "file"),
    [("Add an engine", "engine.py"), ("Add a kind of hosts", "hosts.py"), ("Add a strategy", "strategy.py")],
)
def test_descriptors_are_those_of_the_package_that_the_tests_install(heading: str, file: str) -> None:
    (descriptor,) = blocks(heading, "python")
    assert descriptor in (PACKAGE / "paceline_echo" / file).read_text("utf-8")
    (registration,) = blocks(heading, "ini")
    assert registration in (PACKAGE / "pyproject.toml").read_text("utf-8")


def test_the_workload_trains(tmp_path: Path) -> None:
    (code,) = blocks("Add a workload", "python")
    (command,) = blocks("Add a workload", "sh")
    (tmp_path / "circle.py").write_text(code, encoding="utf-8")
    arguments = command.split()
    assert arguments == ["paceline", "run", "circle.py", "--stop", "steps=30"]
    done = subprocess.run(
        [sys.executable, "-m", *arguments, "--engine", "torch", "--strategy", "single", "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["workload"], result["engine"], result["status"]) == ("circle.py", "torch", "ok")
    assert result["updates"] == 30
    assert result["final"]["accuracy"] > 0.6


def worker(number: int, **phases: float) -> WorkerFacts:
    return WorkerFacts(task=f"w{number}", host=f"h{number}", steps=1000, phases=Phases(**phases))


def facts(*workers: WorkerFacts) -> Facts:
    hosts = tuple(HostFacts(host=worker.host, tasks=(worker.task,), cpu_cores=1.0) for worker in workers)
    return Facts(synchronous=True, seconds=10.0, total_s=11.0, workers=workers, hosts=hosts, machine_cores=8)


def configuration() -> Configuration:
    (plan,) = pipeline.plan(experiment({"workload": "logreg", "strategy": "allreduce", "layout": "w w"}))
    data = PreparedData(paths=(), source="none", synthetic=True)
    return configuration_of(pipeline.header_of(plan, data, ResumePoint(), clock_zero_ns=0))


def add_cause(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Do what the section says: add the function to CAUSES, and the case to the advice."""
    function, advice = blocks("Add a bottleneck cause", "python")
    (folder / "cause.py").write_text(function, encoding="utf-8")
    find = runpy.run_path(str(folder / "cause.py"))["find_blocking_evaluation"]
    patch.setattr(suspects, "CAUSES", (*suspects.CAUSES, find))
    match, case = advice.split("\n", 1)
    source = Path(remedies.__file__).read_text("utf-8")
    assert source.count(match) == 1
    changed = source.replace(f"{match}\n", f"{match}\n{indent(case, '    ')}")
    (folder / "changed_remedies.py").write_text(changed, encoding="utf-8")
    names: dict[str, Any] = runpy.run_path(str(folder / "changed_remedies.py"))
    patch.setattr(judge_module, "remedies", names["remedies"])


def test_the_cause_is_reported_with_its_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluating = facts(worker(0, compute=4, eval=6), worker(1, compute=4, wait=6))
    without = judge(evaluating, configuration())
    add_cause(tmp_path, monkeypatch)
    verdict = judge(evaluating, configuration())
    assert without.cause != "blocking_evaluation"
    assert (verdict.cause, verdict.where) == ("blocking_evaluation", "w0 on h0")
    assert {part.cause: part.share for part in verdict.account} == {"blocking_evaluation": 0.6, "compute": 0.4}
    assert verdict.evidence == [
        "evaluations take 30 % of the workers' time",
        "the other workers wait for w0 meanwhile: 30 % of the time",
    ]
    assert "evaluate fewer examples; command: paceline run logreg" in verdict.remedy[0]
    assert verdict.remedy[0].endswith("--set eval_examples=1000")


def test_the_cause_is_not_reported_if_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_cause(tmp_path, monkeypatch)
    assert judge(facts(worker(0, compute=9, eval=1), worker(1, compute=10)), configuration()).cause == "compute"
