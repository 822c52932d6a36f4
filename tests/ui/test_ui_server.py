"""What the server answers, and to whom."""

import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from paceline.cli.main import run_command
from paceline.store.run import StoredRun
from report.stored import store_run
from ui.conftest import NASTY
from ui.serving import Server, serving

DATA = [
    "/api/runs",
    "/api/status?run=modes-1",
    "/api/report?run=modes-1",
    "/api/log?run=nasty-1",
    "/api/what-if?run=modes-1",
    "/report.html?run=modes-1",
]


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("token", ["", "wrong", "ä"])
def test_nothing_about_runs_is_told_without_the_token(server: Server, path: str, token: str) -> None:
    status, _, content = server.request(path, token=quote(token))
    assert status == 401
    assert b"token" in content
    assert b"logreg" not in content


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_requests_for_another_host_name_are_refused(server: Server, host: str) -> None:
    assert server.request("/api/runs", Host=host)[0] in (400, 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_requests_of_other_sites_are_refused(server: Server, headers: dict[str, str]) -> None:
    assert server.request("/api/runs", **headers)[0] == 403


def test_a_forwarded_port_works(server: Server) -> None:
    assert server.request("/api/runs", Host="localhost:9000", Origin="http://localhost:9000")[0] == 200


@pytest.mark.parametrize("path", ["/", "/static/page.js", "/api/runs", "/nowhere"])
def test_every_answer_forbids_inline_scripts_frames_and_caches(server: Server, path: str) -> None:
    _, headers, content = server.request(path)
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert b"<script>" not in content or path.startswith("/static")


def test_the_page_without_data_does_not_contain_the_token(server: Server) -> None:
    assert server.token.encode() not in server.request("/")[2]


def test_the_list_has_every_run_also_damaged_ones(server: Server) -> None:
    answer = server.json("/api/runs")
    rows = {row[0]: dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]}
    assert {"modes-1", "modes-4", "nasty-1", "<img src=x onerror=alert(2)>"} <= rows.keys()
    assert rows["modes-1"]["status"] == "ok"
    assert rows["modes-1"]["bottleneck"] == "compute: w0 60 %"
    assert rows["broken-1"]["status"] == "damaged"
    assert rows["broken-1"]["problem"]
    assert answer["may_change"] is False


def test_a_report_is_that_of_the_command(server: Server, runs: Path, tmp_path: Path) -> None:
    page = server.json("/api/report?run=modes")
    out = tmp_path / "report.html"
    assert run_command(["report", "modes", "--runs", str(runs), "--out", str(out)]) == 0
    text = out.read_text()
    data = json.loads(text[text.index('id="page-data">') + 15 :].partition("</script>")[0])
    assert without_predictions(page) == without_predictions(data["page"])
    status, headers, content = server.request("/report.html?run=modes", token="")
    assert status == 401
    status, headers, content = server.request(f"/report.html?run=modes&token={server.token}", Authorization="")
    assert status == 200
    assert headers["content-disposition"] == 'attachment; filename="modes-report.html"'
    assert content == out.read_bytes()


def without_predictions(page: dict[str, Any]) -> list[dict[str, Any]]:
    """The sections of a page but one: predictions are in a file, while the page asks for them."""
    assert "what-if" in [section["key"] for section in page["sections"]]
    return [section for section in page["sections"] if section["key"] != "what-if"]


@pytest.mark.parametrize("name", ["../runs/modes-1", "/etc", "..", ".", "modes-1/..", "%2e%2e", "nothing", ""])
@pytest.mark.parametrize(
    "path", ["/api/report", "/api/status", "/api/log", "/api/live", "/api/what-if", "/report.html"]
)
def test_a_name_is_never_a_path(server: Server, path: str, name: str) -> None:
    status, _, content = server.request(f"{path}?run={quote(name, safe='')}")
    assert status == 404
    assert json.loads(content)["error"]


@pytest.mark.parametrize("path", ["/api/status", "/api/log", "/api/live"])
def test_what_is_about_one_run_needs_the_name_of_a_run(server: Server, path: str) -> None:
    assert server.request(f"{path}?run=modes")[0] == 404


def test_a_log_is_printable_text_and_only_its_end(server: Server) -> None:
    assert server.json("/api/log?run=nasty-1")["tasks"] == ["w0"]
    log = server.json("/api/log?run=nasty-1&task=w0")
    assert log["text"].endswith("the end")
    assert log["shortened"]
    assert "\x1b" not in log["text"]
    assert server.request("/api/log?run=nasty-1&task=..%2Fevents")[0] == 404


def test_damage_is_told_as_text(server: Server) -> None:
    status, _, _ = server.request("/api/report?run=headless-1&run=modes-1")
    assert status == 200
    assert server.request("/api/report?run=broken-1")[0] == 404
    assert "damaged" in json.loads(server.request("/api/report?run=broken-1")[2])["error"]
    assert NASTY in json.dumps(server.json("/api/report?run=nasty-1"))


def test_runs_cannot_be_changed_without_edit(server: Server, runs: Path) -> None:
    for path, body in (
        ("/api/delete", {"runs": ["modes-1"]}),
        ("/api/rename", {"run": "modes-1", "name": "new"}),
        ("/api/tags", {"runs": ["modes-1"], "tags": ["new"]}),
    ):
        status, _, content = server.request(path, method="POST", body=body)
        assert status == 401
        assert b"--edit" in content
    assert (runs / "modes-1").is_dir()


def test_with_edit_runs_are_renamed_and_deleted(runs: Path, tmp_path: Path) -> None:
    own = tmp_path / "runs"
    store_run(own, name="one")
    store_run(own, name="two")
    with serving(own, "--edit") as server:
        assert server.json("/api/runs")["may_change"] is True
        assert server.request("/api/rename", method="GET")[0] == 405
        assert server.json("/api/rename", method="POST", body={"run": "one-1", "name": "best"}) == {"run": "best"}
        for name in ("two-1", "../x", "A", "", "x" * 65):
            assert server.request("/api/rename", method="POST", body={"run": "best", "name": name})[0] == 404
        assert server.request("/api/delete", method="POST", body={"runs": ["../runs/best"]})[0] == 404
        assert server.request("/api/delete", method="POST", body=["best"])[0] == 404
        assert server.request("/api/delete", method="POST", body={"runs": ["two"]})[0] == 404  # Only a sweep has it.
        assert server.json("/api/delete", method="POST", body={"runs": ["two-1"]}) == {"deleted": ["two-1"]}
        assert [row[0] for row in server.json("/api/runs")["rows"]] == ["best"]
    assert [entry.name for entry in own.iterdir() if entry.is_dir()] == ["best"]


def test_with_edit_tags_are_changed(tmp_path: Path) -> None:
    own = tmp_path / "runs"
    paths = store_run(own, name="one", tag=["first"])
    store_run(own, name="two")

    def tags(server: Server) -> dict[str, str]:
        answer = server.json("/api/runs")
        return {row[0]: row[answer["columns"].index("tags")] for row in answer["rows"]}

    with serving(own, "--edit") as server:
        assert tags(server) == {"one-1": "first", "two-1": ""}
        change = {"runs": ["one-1", "two-1"], "tags": ["baseline", "tuned"]}
        assert server.json("/api/tags", method="POST", body=change) == {"tagged": ["one-1", "two-1"]}
        assert tags(server) == {"one-1": "baseline tuned", "two-1": "baseline tuned"}
        for bad in ("<b>", "", "x" * 41, "a b"):
            status, _, content = server.request("/api/tags", method="POST", body={"runs": ["one-1"], "tags": [bad]})
            assert (status, "tag '" in json.loads(content)["error"]) == (404, True)
        assert server.json("/api/tags", method="POST", body={"runs": ["one-1"], "tags": []}) == {"tagged": ["one-1"]}
        assert tags(server) == {"one-1": "", "two-1": "baseline tuned"}
        paths.tags.write_bytes(b"[[[[")
        assert tags(server) == {"one-1": "first", "two-1": "baseline tuned"}


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="only Linux has scheduling policies")
def test_the_server_gives_way_to_the_training(server: Server) -> None:
    server.request("/")
    assert os.getpriority(os.PRIO_PROCESS, server.pid) == 19
    assert os.sched_getscheduler(server.pid) == os.SCHED_BATCH


def test_a_deleted_directory_is_gone_from_the_list(tmp_path: Path) -> None:
    own = tmp_path / "runs"
    paths = store_run(own, name="one")
    with serving(own) as server:
        assert len(server.json("/api/runs")["rows"]) == 1
        shutil.rmtree(paths.directory)
        assert server.json("/api/runs")["rows"] == []
        assert server.request("/api/report?run=one-1")[0] == 404


def test_a_run_whose_controller_was_killed_is_read_when_it_is_opened(tmp_path: Path) -> None:
    own = tmp_path / "runs"
    paths = store_run(own, name="killed", end=None)
    assert StoredRun(paths).result is None
    with serving(own) as server:
        assert server.json("/api/runs")["rows"][0][1] == "aborted"
        assert "the controller was killed" in json.dumps(server.json("/api/report?run=killed-1"))


@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_wrong_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["ui", "--port", port]) == 2
    assert f"--port {port}" in capsys.readouterr().err
