"""A spec file keeps its field names and their defaults."""

import json
import subprocess
from pathlib import Path

import tomli_w

from contracts.golden import assert_equal, golden, json_lines, paceline
from paceline.spec.experiment import OPTIONS
from paceline.spec.option import Option

REQUIRED = "required"


def test_fields_and_defaults_match_the_golden_file() -> None:
    expected = golden("spec_fields.json")
    actual = {name: _default(option) for name, option in OPTIONS.items()}
    assert_equal("spec_fields.json", {name: field["default"] for name, field in expected.items()}, actual)
    lists = {name for name, field in expected.items() if field["makes_a_sweep"]}
    assert {name for name, option in OPTIONS.items() if option.axis} == lists


def _default(option: Option) -> object:
    """The default as it would be written in a spec file."""
    if option.required:
        return REQUIRED
    return [str(value) for value in option.default] if isinstance(option.default, tuple) else option.default


def test_every_field_is_accepted_in_a_spec_file(tmp_path: Path) -> None:
    fields = {name: field["example"] for name, field in golden("spec_fields.json").items() if "example" in field}
    spec = tmp_path / "spec.toml"
    spec.write_text(tomli_w.dumps(fields | {"runs": str(tmp_path / "runs")}))
    completed = paceline("run", spec, "--dry-run")
    assert completed.returncode == 0, completed.stderr


def test_limits_of_hosts_are_accepted_in_a_spec_file(tmp_path: Path) -> None:
    """Local hosts have no limits; the message names netns, which shows that the fields were read."""
    spec = tmp_path / "spec.toml"
    spec.write_text('workload = "logreg"\nlink = "1gbit"\nlatency = "1ms"\ncpus = "0.5"\n')
    completed = paceline("run", spec, "--dry-run", "--runs", tmp_path / "runs")
    assert completed.returncode == 2
    assert "netns" in completed.stderr


def test_run_uses_the_defaults(new_run: subprocess.CompletedProcess[str]) -> None:
    (result,) = json_lines(new_run)
    expected = {name: field["default"] for name, field in golden("spec_fields.json").items()}
    not_default = {"stop"}
    used = {name: value for name, value in result["settings"].items() if name in expected and name not in not_default}
    assert used == {name: expected[name] for name in used}, json.dumps(used)
    assert (result["engine"], result["seed"], result["hosts_kind"]) == ("torch", 1, "local")
