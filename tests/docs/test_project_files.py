"""The files that contributors and package indexes rely on are complete and agree with one another."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def make_targets(text: str) -> list[str]:
    """The targets of the `make` commands in a script."""
    return re.findall(r"^(?:exec )?make +(.+)$", text, flags=re.MULTILINE)


def test_the_workflow_runs_the_same_make_test_as_the_local_ci_script() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    local = make_targets((ROOT / ".ci" / "run").read_text("utf-8"))
    assert local == ["test"]
    assert [target for command in commands for target in make_targets(command)] == local


def test_the_workflow_cannot_pass_when_make_test_fails() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    # YAML 1.1 reads the key `on` as the boolean true.
    assert set(workflow[True]) == {"push", "pull_request"}
    for job in workflow["jobs"].values():
        for entry in (job, *job["steps"]):
            assert "continue-on-error" not in entry
            assert "if" not in entry


def test_the_workflow_uses_the_oldest_supported_python() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    (setup,) = [
        step["with"]
        for job in workflow["jobs"].values()
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/setup-python@")
    ]
    assert PROJECT["requires-python"] == f">={setup['python-version']}"
    assert setup["cache"] == "pip"


def test_pre_commit_hooks_run_the_tools_of_make_check_and_nothing_from_the_network() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    tools = [hook["entry"].removeprefix(".venv/bin/").split(" --")[0] for hook in hooks]
    assert tools == ["ruff check", "ruff format", "mypy"]
    checked = (ROOT / "Makefile").read_text("utf-8")
    for tool in tools:
        assert f"$(BIN)/{tool}" in checked


def test_the_package_has_license_authors_keywords_and_classifiers() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert PROJECT["authors"] == [{"name": "The Paceline authors"}]
    assert "distributed-training" in PROJECT["keywords"]
    assert "Programming Language :: Python :: 3.11" in PROJECT["classifiers"]
    assert "urls" not in PROJECT, "add project URLs only when the pages exist"


def test_the_installed_package_says_its_license() -> None:
    installed = metadata("paceline")
    assert installed["License-Expression"] == "Apache-2.0"
    assert installed.get_all("License-File") == ["LICENSE"]


def test_the_license_is_the_whole_apache_license_of_the_authors() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "The Paceline authors" in text
    assert "[name of copyright owner]" not in text


def test_the_changelog_has_unreleased_changes_first_and_then_the_current_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    assert headings[:2] == ["Unreleased", PROJECT["version"]]


def test_the_security_policy_supports_the_current_version() -> None:
    minor = ".".join(PROJECT["version"].split(".")[:2])
    assert f"| {minor}.x | yes |" in (ROOT / "SECURITY.md").read_text("utf-8")
