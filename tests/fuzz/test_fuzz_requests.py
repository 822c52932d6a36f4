"""Requests of any kind at all: an experiment, or a refusal in one line that a terminal can show."""

import string
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutations import mutants, quick_and_thorough
from paceline import pipeline, units
from paceline.cli.main import run_command
from paceline.errors import PacelineError, SpecError, one_line, printable
from paceline.plan.layout import MAX_HOSTS, MAX_TASKS, parse, resolve
from paceline.plan.limits import limits
from paceline.spec.experiment import AXES, OPTIONS
from paceline.spec.load import experiment, load_toml
from paceline.spec.stop import StopRule
from paceline.spec.sweep import MAX_RUNS, expand
from paceline.spec.values import NAME

patient = settings(suppress_health_check=list(HealthCheck))
NASTY = "\x1b[31m\x1b]0;title\x07\r\n\0\u202e\u2028\x9b2J"
texts = st.text(max_size=30) | st.text(string.digits + "pw ,.=-+%mgkbits/:einfa\0\x1b\n", max_size=30)
numbers = st.integers() | st.floats() | st.sampled_from([10**18, 10**30, -(10**400), 2**53, 2**63, 2**64, 1e308])
values = texts | numbers | st.none() | st.booleans()
trees = st.recursive(values, lambda few: st.lists(few, max_size=3) | st.dictionaries(texts, few, max_size=3))


def is_one_line(error: PacelineError) -> None:
    line = str(error)
    assert line
    assert line.isprintable()
    assert len(line) < 1_100


@given(st.dictionaries(st.sampled_from([*OPTIONS]) | texts, trees, max_size=6), st.booleans())
@patient
def test_any_fields_can_be_planned_or_are_refused_in_a_line(fields: dict[str, Any], named: bool) -> None:
    if named:
        fields["workload"] = "logreg"
    fields.pop("runs", None)
    try:
        pipeline.plan(experiment(fields))
    except PacelineError as error:
        is_one_line(error)


@given(st.sampled_from([*AXES, "stop", "repeat", "name"]), values)
@settings(patient, max_examples=300)
def test_any_value_of_any_field_can_be_planned_or_is_refused_in_a_line(field: str, value: Any) -> None:
    try:
        pipeline.plan(experiment({"workload": "logreg", field: value}))
    except PacelineError as error:
        is_one_line(error)


@pytest.mark.slow
@given(st.sampled_from([*AXES, "stop", "repeat", "name"]), values, st.sampled_from([*AXES]), trees)
@settings(patient, max_examples=20_000)
def test_any_two_fields_can_be_planned_or_are_refused_in_a_line(one: str, value: Any, two: str, other: Any) -> None:
    try:
        pipeline.plan(experiment({"workload": "logreg", one: value, two: other}))
    except PacelineError as error:
        is_one_line(error)


SPEC = b"""
workload = "logreg"
engine = ["torch", "tensorflow"]
strategy = ["ps-sync", "ps-async"]
layout = ["pw w", "cluster2"]
batch = [10, 100]
lr = 0.5
stop = ["steps=2000", "loss=0.35"]
repeat = 3
cpus = "0.5 1"
[recipe]
title = "x"
"""


@quick_and_thorough(500)
def test_any_file_is_a_spec_or_is_refused_in_a_line(tmp_path: Path, cases: int) -> None:
    path, refused = tmp_path / "spec.toml", 0
    for data in mutants([SPEC], cases):
        path.write_bytes(data)
        try:
            expand(experiment(load_toml(path)))
        except PacelineError as error:
            is_one_line(error)
            refused += 1
    assert refused > cases / 4


@pytest.mark.parametrize(
    "text", ["a=" + "[" * 100_000, "a=" + "{b=" * 50_000, "a=" + "9" * 5_000, "#" * (2**20 + 1), "a=1\0", "a='\x1b'"]
)
def test_files_made_to_hurt_are_refused_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(SpecError) as refused:
        load_toml(tmp_path / "spec.toml")
    is_one_line(refused.value)


def test_a_spec_file_whose_name_no_file_can_have_is_refused() -> None:
    for name in ("\0.toml", "x" * 5_000 + ".toml", ".", "/dev/null/x.toml"):
        with pytest.raises(SpecError, match="cannot read"):
            load_toml(Path(name))


@given(st.text(max_size=200) | st.text("pw ", max_size=300), st.booleans())
@settings(patient, max_examples=500)
def test_any_layout_is_small_enough_or_refused(text: str, needs_server: bool) -> None:
    try:
        layout = resolve(text, needs_server=needs_server)
    except PacelineError as error:
        is_one_line(error)
    else:
        assert len(layout.hosts) <= MAX_HOSTS
        assert len(layout.places()) <= MAX_TASKS


@quick_and_thorough(500)
def test_words_that_are_nearly_a_layout_are_one_or_refused(cases: int) -> None:
    refused = 0
    for data in mutants([b"pw w w", b"p p w w w", b"cluster2", b"w", b"pw*3 w"], cases):
        try:
            layout = resolve(data.decode("utf-8", "replace"), needs_server=True)
        except PacelineError as error:
            refused += 1
            is_one_line(error)
        else:
            assert 0 < len(layout.hosts) <= MAX_HOSTS
            assert set(str(layout)) <= set("pw ")
    assert cases / 2 < refused < cases


@pytest.mark.parametrize("text", ["w" * 10**6, "w " * 10**6, "pw" * 10**6 + "x", "x" * 10**6, "\x1b" * 10**6])
def test_a_layout_of_a_million_letters_is_refused_at_once(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(PacelineError) as refused:
        parse(text)
    is_one_line(refused.value)
    assert time.monotonic() - start < 5


@given(texts, texts, texts)
@settings(patient, max_examples=300)
def test_any_limits_hold_for_each_host_or_are_refused(link: str, latency: str, cpus: str) -> None:
    layout = parse("pw w w")
    try:
        (run,) = expand(experiment({"workload": "logreg", "link": [link], "latency": [latency], "cpus": [cpus]}))
        found = limits(run, layout)
    except PacelineError as error:
        is_one_line(error)
    else:
        assert len(found) == len(layout.hosts)
        assert all(one.latency_s is None or 0 <= one.latency_s <= units.MAX_DELAY_S for one in found)


@given(texts | st.sampled_from(["steps=1e300", "epochs=99999999999", "seconds=nan", "loss=-inf", "steps=0x10"]))
@settings(patient, max_examples=500)
def test_any_stop_rule_is_one_or_refused(text: str) -> None:
    try:
        rule = StopRule.parse(text)
    except PacelineError as error:
        is_one_line(error)
    else:
        assert 0 < rule.value < float("inf")
        assert StopRule.parse(str(rule)).kind == rule.kind


def test_sweeps_too_large_to_make_are_refused_before_they_are_made() -> None:
    hundred = [str(number) for number in range(1, 101)]
    for fields in (
        {
            "batch": hundred,
            "seed": hundred,
            "eval_every": hundred,
            "threads": hundred,
            "examples": hundred,
            "lr": hundred,
        },
        {"repeat": 10**9},
        {"repeat": 2**53},
    ):
        start = time.monotonic()
        with pytest.raises(SpecError, match=f"at most {MAX_RUNS:,}"):
            expand(experiment({"workload": "logreg", **fields}))
        assert time.monotonic() - start < 5


@pytest.mark.parametrize("field", ["batch", "examples", "eval_every", "checkpoint_every", "threads", "trace_every"])
@pytest.mark.parametrize("number", [10**18, 10**30, "9" * 400, "nan", "inf", -1])
def test_numbers_that_nothing_can_hold_are_refused(field: str, number: object) -> None:
    with pytest.raises(PacelineError) as refused:
        pipeline.plan(experiment({"workload": "logreg", field: number}))
    is_one_line(refused.value)


@given(st.text(max_size=70))
@settings(patient, max_examples=500)
def test_a_name_is_safe_in_paths_and_pages_or_refused(name: str) -> None:
    try:
        made = experiment({"workload": "logreg", "name": name})
    except PacelineError as error:
        is_one_line(error)
    else:
        assert made.name
        assert set(made.name) <= set(string.ascii_lowercase + string.digits + "-")
        assert len(made.name) <= 48


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "A", "é", "a\n", "-a", "", "x" * 65, "a b", "a\0", ".hidden"])
def test_names_that_mean_something_to_a_shell_or_a_path_are_refused(name: str) -> None:
    assert not NAME.fullmatch(name)
    with pytest.raises(SpecError):
        experiment({"workload": "logreg", "name": name})


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", NASTY],
        ["run", f"{NASTY}.toml"],
        ["run", f"{NASTY}.py"],
        ["run", f"a.b{NASTY}:c"],
        ["run", "logreg", f"--{NASTY}"],
        ["run", "logreg", "--engine", NASTY],
        ["run", "logreg", "--layout", NASTY],
        ["run", "logreg", "--stop", NASTY],
        ["run", "logreg", "--repeat", NASTY],
        ["run", "logreg", "--set", NASTY],
        ["run", "logreg", "--set", f"{NASTY}={NASTY}"],
        ["run", "logreg", "--name", NASTY],
        ["run", "logreg", "--name", "x" * 10**6],
        [NASTY],
        ["show", NASTY],
        ["show", "../../etc"],
        ["report", NASTY, "--format", NASTY],
        ["compare", NASTY, NASTY],
        ["reproduce", NASTY],
    ],
)
def test_what_is_complained_of_is_quoted_without_its_escapes(
    capsys: pytest.CaptureFixture[str], arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(arguments) in (1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("\n")
    line = captured.err.removesuffix("\n")
    assert line.isprintable(), repr(line)
    assert line.startswith("paceline: ")
    assert "internal fault" not in line
    assert len(line) < 1_200


@given(st.text())
@patient
def test_a_line_stays_a_line(text: str) -> None:
    assert one_line(text).isprintable()
    assert printable(text).replace("\n", "").replace("\t", "").isprintable()
