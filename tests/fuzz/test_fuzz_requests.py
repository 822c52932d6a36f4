"""Arbitrary specs and command lines give a plan or a one-line error that a terminal can show."""

import math
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
from paceline.spec.stop import TARGETS, WORK, StopRule
from paceline.spec.sweep import MAX_RUNS, expand
from paceline.spec.values import NAME

no_health_checks = settings(suppress_health_check=list(HealthCheck))
CONTROL_CHARACTERS = "\x1b[31m\x1b]0;title\x07\r\n\0\u202e\u2028\x9b2J"
texts = st.text(max_size=30) | st.text(string.digits + "pw ,.=-+%mgkbits/:einfa\0\x1b\n", max_size=30)
numbers = st.integers() | st.floats() | st.sampled_from([10**18, 10**30, -(10**400), 2**53, 2**63, 2**64, 1e308])
values = texts | numbers | st.none() | st.booleans()
trees = st.recursive(values, lambda few: st.lists(few, max_size=3) | st.dictionaries(texts, few, max_size=3))


def assert_one_line(error: PacelineError) -> None:
    line = str(error)
    assert line
    assert line.isprintable()
    assert len(line) < 1_100


@given(st.dictionaries(st.sampled_from([*OPTIONS]) | texts, trees, max_size=6), st.booleans())
@no_health_checks
def test_any_fields_are_planned_or_refused_in_one_line(fields: dict[str, Any], named: bool) -> None:
    if named:
        fields["workload"] = "logreg"
    fields.pop("runs", None)
    try:
        pipeline.plan(experiment(fields))
    except PacelineError as error:
        assert_one_line(error)


@given(st.sampled_from([*AXES, "stop", "repeat", "name"]), values)
@settings(no_health_checks, max_examples=300)
def test_any_value_of_any_field_is_planned_or_refused_in_one_line(field: str, value: Any) -> None:
    try:
        pipeline.plan(experiment({"workload": "logreg", field: value}))
    except PacelineError as error:
        assert_one_line(error)


@pytest.mark.slow
@given(st.sampled_from([*AXES, "stop", "repeat", "name"]), values, st.sampled_from([*AXES]), trees)
@settings(no_health_checks, max_examples=20_000)
def test_any_two_fields_are_planned_or_refused_in_one_line(
    first: str, first_value: Any, second: str, second_value: Any
) -> None:
    try:
        pipeline.plan(experiment({"workload": "logreg", first: first_value, second: second_value}))
    except PacelineError as error:
        assert_one_line(error)


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
def test_any_file_is_a_spec_or_refused_in_one_line(tmp_path: Path, cases: int) -> None:
    path, refused = tmp_path / "spec.toml", 0
    for data in mutants([SPEC], cases):
        path.write_bytes(data)
        try:
            expand(experiment(load_toml(path)))
        except PacelineError as error:
            assert_one_line(error)
            refused += 1
    assert refused > cases / 4


@pytest.mark.parametrize(
    "text", ["a=" + "[" * 100_000, "a=" + "{b=" * 50_000, "a=" + "9" * 5_000, "#" * (2**20 + 1), "a=1\0", "a='\x1b'"]
)
def test_malicious_files_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(SpecError) as refused:
        load_toml(tmp_path / "spec.toml")
    assert_one_line(refused.value)


def test_spec_file_with_an_impossible_name_is_refused() -> None:
    for name in ("\0.toml", "x" * 5_000 + ".toml", ".", "/dev/null/x.toml"):
        with pytest.raises(SpecError, match="cannot read"):
            load_toml(Path(name))


@given(st.text(max_size=200) | st.text("pw ", max_size=300), st.booleans())
@settings(no_health_checks, max_examples=500)
def test_any_layout_is_within_the_limits_or_refused(text: str, needs_server: bool) -> None:
    try:
        layout = resolve(text, needs_server=needs_server)
    except PacelineError as error:
        assert_one_line(error)
    else:
        assert len(layout.hosts) <= MAX_HOSTS
        assert len(layout.places()) <= MAX_TASKS


@quick_and_thorough(500)
def test_mutated_layouts_are_resolved_or_refused(cases: int) -> None:
    refused = 0
    for data in mutants([b"pw w w", b"p p w w w", b"cluster2", b"w", b"pw*3 w"], cases):
        try:
            layout = resolve(data.decode("utf-8", "replace"), needs_server=True)
        except PacelineError as error:
            refused += 1
            assert_one_line(error)
        else:
            assert 0 < len(layout.hosts) <= MAX_HOSTS
            assert set(str(layout)) <= set("pw ")
    assert cases / 2 < refused < cases


@pytest.mark.parametrize("text", ["w" * 10**6, "w " * 10**6, "pw" * 10**6 + "x", "x" * 10**6, "\x1b" * 10**6])
def test_layout_of_a_million_letters_is_refused_within_seconds(text: str) -> None:
    start = time.monotonic()
    with pytest.raises(PacelineError) as refused:
        parse(text)
    assert_one_line(refused.value)
    assert time.monotonic() - start < 5


@given(texts, texts, texts)
@settings(no_health_checks, max_examples=300)
def test_any_limits_are_given_for_each_host_or_refused(link: str, latency: str, cpus: str) -> None:
    layout = parse("pw w w")
    try:
        (run,) = expand(experiment({"workload": "logreg", "link": [link], "latency": [latency], "cpus": [cpus]}))
        host_limits = limits(run, layout)
    except PacelineError as error:
        assert_one_line(error)
    else:
        assert len(host_limits) == len(layout.hosts)
        assert all(limit.latency_s is None or 0 <= limit.latency_s <= units.MAX_DELAY_S for limit in host_limits)


@given(texts | st.sampled_from(["steps=1e300", "epochs=99999999999", "seconds=nan", "loss=-inf", "steps=0x10"]))
@settings(no_health_checks, max_examples=500)
def test_any_stop_rule_is_parsed_or_refused(text: str) -> None:
    try:
        rule = StopRule.parse(text)
    except PacelineError as error:
        assert_one_line(error)
    else:
        assert math.isfinite(rule.value)
        assert rule.value > 0 or rule.kind not in (*WORK, *TARGETS)
        assert StopRule.parse(str(rule)).kind == rule.kind


def test_too_large_sweeps_are_refused_before_they_are_expanded() -> None:
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
def test_numbers_out_of_range_are_refused(field: str, number: object) -> None:
    with pytest.raises(PacelineError) as refused:
        pipeline.plan(experiment({"workload": "logreg", field: number}))
    assert_one_line(refused.value)


@given(st.text(max_size=70))
@settings(no_health_checks, max_examples=500)
def test_any_name_is_safe_in_paths_and_html_or_refused(name: str) -> None:
    try:
        spec = experiment({"workload": "logreg", "name": name})
    except PacelineError as error:
        assert_one_line(error)
    else:
        assert spec.name
        assert set(spec.name) <= set(string.ascii_lowercase + string.digits + "-")
        assert len(spec.name) <= 48


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "A", "é", "a\n", "-a", "", "x" * 65, "a b", "a\0", ".hidden"])
def test_names_with_a_meaning_to_a_shell_or_in_a_path_are_refused(name: str) -> None:
    assert not NAME.fullmatch(name)
    with pytest.raises(SpecError):
        experiment({"workload": "logreg", "name": name})


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", CONTROL_CHARACTERS],
        ["run", f"{CONTROL_CHARACTERS}.toml"],
        ["run", f"{CONTROL_CHARACTERS}.py"],
        ["run", f"a.b{CONTROL_CHARACTERS}:c"],
        ["run", "logreg", f"--{CONTROL_CHARACTERS}"],
        ["run", "logreg", "--engine", CONTROL_CHARACTERS],
        ["run", "logreg", "--layout", CONTROL_CHARACTERS],
        ["run", "logreg", "--stop", CONTROL_CHARACTERS],
        ["run", "logreg", "--repeat", CONTROL_CHARACTERS],
        ["run", "logreg", "--set", CONTROL_CHARACTERS],
        ["run", "logreg", "--set", f"{CONTROL_CHARACTERS}={CONTROL_CHARACTERS}"],
        ["run", "logreg", "--name", CONTROL_CHARACTERS],
        ["run", "logreg", "--name", "x" * 10**6],
        [CONTROL_CHARACTERS],
        ["show", CONTROL_CHARACTERS],
        ["show", "../../etc"],
        ["report", CONTROL_CHARACTERS, "--format", CONTROL_CHARACTERS],
        ["compare", CONTROL_CHARACTERS, CONTROL_CHARACTERS],
        ["reproduce", CONTROL_CHARACTERS],
    ],
)
def test_errors_quote_input_without_control_characters(
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
    assert "internal error" not in line
    assert len(line) < 1_200


@given(st.text())
@no_health_checks
def test_one_line_and_printable_remove_control_characters(text: str) -> None:
    assert one_line(text).isprintable()
    assert printable(text).replace("\n", "").replace("\t", "").isprintable()
