"""The files in deploy/ have what a cluster requires of them, and agree with the code. They are not applied anywhere."""

import re
from pathlib import Path
from typing import Any

import yaml

from paceline.hosts.k8s.selection import read_selection

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text("utf-8")) if document]


def test_every_yaml_file_has_kind_and_name() -> None:
    files = list(DEPLOY.rglob("*.yaml"))
    assert files
    for document in (document for file in files for document in documents(file)):
        assert document["apiVersion"]
        assert document["kind"]
        assert document["metadata"]["name"]


def test_the_stateful_set_makes_pods_that_paceline_selects() -> None:
    service, pods = documents(DEPLOY / "kubernetes" / "statefulset.yaml")
    assert (service["kind"], service["spec"]["clusterIP"]) == ("Service", "None")
    spec = pods["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["serviceName"] == service["metadata"]["name"]
    assert labels == spec["selector"]["matchLabels"] == service["spec"]["selector"]
    selectors = set(re.findall(r"--hosts k8s:(\S+?)[`\s]", (DEPLOY / "kubernetes" / "statefulset.yaml").read_text()))
    assert {read_selection(text).selector for text in selectors} == {f"app={labels['app']}"}


def test_pods_ask_for_resources_and_run_without_root() -> None:
    _, pods = documents(DEPLOY / "kubernetes" / "statefulset.yaml")
    pod = pods["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {pod['securityContext']['runAsUser']} " in (DEPLOY / "Dockerfile").read_text()
    for container in pod["containers"]:
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_the_image_installs_an_engine_that_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert text.count("\nFROM python:3.11-slim\n") == 1
    for extra in re.findall(r"^ARG EXTRAS=(\S+)", text, re.MULTILINE)[0].split(","):
        assert f"\n{extra} = [" in project
    assert "\nUSER 1000\n" in text
