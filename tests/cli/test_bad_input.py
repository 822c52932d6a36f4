"""Invalid input: exit code 2, one line that says what is wrong and what is allowed, and nothing is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import run_command


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of a command that must be refused."""
    assert run_command(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("paceline: ")
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("logrge", "did you mean logreg"),
        ("logreg --engine pytorch", "did you mean torch?"),
        ("logreg --strategy async", "ps-async"),
        ("logreg --strategy ps-async --layout pwx", "cluster"),
        ("logreg --strategy ps-async --layout w,w", "add a p"),
        ("logreg --batch 0", "batch 0: must be 1 or more"),
        ("logreg --batch many", "batch"),
        ("logreg --batch 10,,20", "empty item"),
        ("logreg --batch 70000", "larger than a worker's shard"),
        ("logreg --stop steps=-5", "above 0"),
        ("logreg --stop forever", "steps=2000"),
        ("logreg --repeat 0", "repeat 0"),
        ("logreg --repeat two", "--repeat"),
        ("logreg --hosts cloud", "local, netns"),
        ("logreg --link 1gbit", "--hosts netns"),
        ("logreg --cpus 0.5", "--hosts netns"),
        ("logreg --hosts netns --link quick", "100mbit"),
        ("logreg --set lr=-1", "lr -1.0"),
        ("logreg --set learning_rate=1", "unknown option"),
        ("logreg --set optimizer=adm", "did you mean adam or adamw?"),
        ("logreg --set optimizer=adam:beta=0.9", "setting 'beta'"),
        ("logreg --set optimizer=adam --set momentum=0.9", "optimizer adam has none"),
        ("logreg --set schedule=cosinus", "did you mean cosine or constant?"),
        ("logreg --set schedule=cosine --stop seconds=5", "cosine:updates=N"),
        ("logreg --set clip=0", "clip 0.0: must be above 0"),
        ("logreg --set clip=1 --strategy ps-sync --layout pww --backup 1", "remove --backup or clip"),
        ("logreg --set param_groups=conv*:lr_scale=0", "no parameter matches 'conv*': the names are 0.weight, 0.bias"),
        ("sparse-logreg --set optimizer=nesterov", "use sgd, adagrad or adam"),
        ("sparse-logreg --set optimizer=adamw", "set its weight_decay to 0"),
        ("logreg --stop perplexity=0", "above 0"),
        ("logreg --stop top5=5", "top5 must be at most 1"),
        ("logreg --stop auc=0.9", "has no auc: use a stop rule of loss or accuracy or perplexity or top5"),
        ("autoencoder --stop perplexity=2", "has no perplexity: use a stop rule of loss instead"),
        ("logreg --stop f1=0.9", "unknown stop rule 'f1': logreg has steps, epochs, seconds, plateau, accuracy, loss"),
        ("logreg --stop stepz=9", "did you mean steps?"),
        ("logreg --engine tensorflow --strategy allreduce --set compress=fp16", "compress"),
        ("logreg --stop loss=0.3 --eval-every 0", "remove --eval-every 0"),
        ("matmul --set optimizer=adam", "is not training and has no optimizer"),
        ("logreg --name Not/Good", "a-z"),
        ("logreg --frobnicate", "--frobnicate"),
        ("missing.toml", "cannot read missing.toml"),
        ("", "paceline run --help"),
        ("logreg --stop steps=1.5", "'steps=1.5'"),
        ("logreg --repeat 1000000000", "at most 10,000"),
        ("logreg --hosts netns --link 1bit", "10kbit"),
        ("logreg --name latest", "newest run"),
        ("logreg --fault kil", "did you mean kill?"),
        ("logreg --fault kill", "write e.g. kill w1 at step 500"),
    ],
)
def test_invalid_run_option_is_refused_before_a_run_directory_exists(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, message: str
) -> None:
    runs = tmp_path / "runs"
    assert message in refusal(capsys, "run", *arguments.split(), "--runs", str(runs))
    assert not runs.exists()


def test_unreadable_toml_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text("workload = ")
    assert "not valid TOML" in refusal(capsys, "run", str(spec))
    spec.write_text('workload = "logreg"\nbatches = 3')
    assert "did you mean batch" in refusal(capsys, "run", str(spec))


def test_unwritable_runs_directory_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "--runs" in refusal(capsys, "run", "logreg", "--runs", str(blocked / "runs"))
    assert "--runs" in refusal(capsys, "run", "logreg", "--runs", "/proc/paceline-runs")


def test_netns_without_root_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in refusal(capsys, "run", "logreg", "--hosts", "netns")


def test_unknown_runs_and_commands_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no runs" in refusal(capsys, "show", "latest", "--runs", str(tmp_path / "none"))
    assert "no runs" in refusal(capsys, "compare", "a", "b", "--runs", str(tmp_path / "none"))
    assert "trian" in refusal(capsys, "trian")


def test_dry_run_prints_the_plan_and_starts_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = run_command(
        [
            "run",
            "logreg",
            "--strategy",
            "ps-async",
            "--layout",
            "pw w,p w w",
            "--runs",
            str(tmp_path / "r"),
            "--dry-run",
        ]
    )
    out = capsys.readouterr().out
    assert code == 0
    assert "ps0@h1, w0@h1, w1@h2" in out
    assert "ps0@h1, w0@h2, w1@h3" in out
    assert not (tmp_path / "r").exists()


def test_full_disk_is_reported_in_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "paceline", "workloads"]
        completed = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert completed.returncode == 1
    assert completed.stderr == "paceline: No space left on device\n"


def test_version_option_and_call_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out.startswith("paceline 0.")
    assert run_command([]) == 0
    assert "Usage: paceline" in capsys.readouterr().out
