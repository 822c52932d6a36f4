"""Users' own workloads: the examples of the project, errors in users' code, and invalid workloads."""

import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import paceline
from paceline import pipeline
from paceline.cli.main import run_command
from paceline.errors import SpecError
from paceline.spec.load import experiment
from paceline.store.result import Result
from paceline.workloads.user_workload import load_user_workload

EXAMPLES = Path(__file__).parents[2] / "examples"
LAYOUTS = {"single": "w", "ps-sync": "pw w", "ps-async": "pw w", "allreduce": "w w"}


def train(tmp_path: Path, workload: Path, **fields: Any) -> Result:
    (result,) = paceline.run(str(workload), runs=str(tmp_path / "runs"), check=False, **fields)
    return result


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
@pytest.mark.parametrize("strategy", ["single", "ps-async"])
def test_a_model_of_layers_trains_on_every_engine(tmp_path: Path, engine: str, strategy: str) -> None:
    result = train(
        tmp_path,
        EXAMPLES / "two_moons.py",
        engine=engine,
        strategy=strategy,
        layout=LAYOUTS[strategy],
        stop="steps=400",
    )
    assert result.status == "ok", result.reason
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.98


@pytest.mark.parametrize("strategy", LAYOUTS)
def test_a_torch_module_trains_with_every_strategy(tmp_path: Path, strategy: str) -> None:
    batch = 50 if strategy == "single" else 25
    result = train(
        tmp_path, EXAMPLES / "torch_lenet.py", strategy=strategy, layout=LAYOUTS[strategy], batch=batch, stop="steps=30"
    )
    assert result.status == "ok", result.reason
    if strategy in ("ps-sync", "allreduce"):
        single = train(tmp_path, EXAMPLES / "torch_lenet.py", batch=50, stop="steps=30")
        assert result.final.loss == pytest.approx(single.final.loss, rel=1e-3)


@pytest.mark.parametrize("layout", ["w", "w w", "w w w"])
def test_a_keras_model_trains_with_allreduce_and_writes_checkpoints(tmp_path: Path, layout: str) -> None:
    workers = len(layout.split())
    result = train(
        tmp_path, EXAMPLES / "keras_lenet.py", engine="tensorflow", strategy="allreduce", layout=layout,
        batch=60 // workers, stop="steps=45", checkpoint_every=20,
    )  # fmt: skip
    assert result.status == "ok", result.reason
    checkpoints = sorted(path.name for path in (Path(result.dir) / "checkpoints").iterdir())
    assert checkpoints == ["final.safetensors", "update-20.safetensors", "update-40.safetensors"]
    assert sum(value.size for value in load_file(Path(result.dir) / "checkpoints" / checkpoints[0]).values()) == 44_426
    assert result.workers[0].phases["checkpoint"] > 0
    assert result.final.loss is not None
    assert result.final.loss < 2.0


@pytest.mark.parametrize("strategy", ["single", "ps-sync", "ps-async"])
def test_a_keras_model_trains_alone_and_with_a_parameter_server(tmp_path: Path, strategy: str) -> None:
    result = train(
        tmp_path, EXAMPLES / "keras_lenet.py", strategy=strategy, layout=LAYOUTS[strategy], stop="steps=20",
        momentum=0.5,
    )  # fmt: skip
    assert result.status == "ok", result.reason


@pytest.mark.parametrize(
    "strategy",
    ["single", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ps-sync", "ps-async", "allreduce"))],
)
def test_a_keras_model_with_a_state_is_refused_in_one_line(tmp_path: Path, strategy: str) -> None:
    file = tmp_path / "dropout.py"
    layers = "layers.Flatten(), layers.Dropout(0.5), layers.BatchNormalization()"
    file.write_text((EXAMPLES / "keras_lenet.py").read_text().replace("layers.Flatten()", layers))
    result = train(tmp_path, file, engine="tensorflow", strategy=strategy, layout=LAYOUTS[strategy], stop="steps=5")
    assert result.reason == (
        "the Keras model has layers with variables that training does not change (BatchNormalization, Dropout): remove "
        "Dropout, use LayerNormalization instead of BatchNormalization, and do not freeze layers"
    )
    assert result.refused
    assert not result.traceback


def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    page = (EXAMPLES.parent / "docs" / "guide" / "your-own-model.md").read_text()
    (code,) = re.findall(r"```python\n(import numpy.*?)```", page, re.DOTALL)
    file = tmp_path / "quadrants.py"
    file.write_text(code)
    result = train(tmp_path, file, strategy="ps-sync", layout="pw w", stop="steps=500")
    assert result.status == "ok", result.reason
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.9


@pytest.mark.parametrize("engine", ["torch", "tensorflow"])
def test_a_model_learns_from_streamed_libsvm_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The label follows from one feature of each example; it is learned from a gzipped file over several epochs."""
    random = np.random.default_rng(1)
    lines = []
    for _ in range(2_000):
        label = int(random.integers(0, 2))
        others = sorted(random.choice(np.arange(10, 900), 3, replace=False))
        lines.append(f"{2 * label - 1} {label + 1}:1 " + " ".join(f"{index}:0.5" for index in others))
    (tmp_path / "test.svm").write_text("\n".join(lines[:200]) + "\n")
    with gzip.open(tmp_path / "train.svm.gz", "wt") as compressed:
        compressed.write("\n".join(lines[200:]) + "\n")
    for name, value in {
        "CRITEO": str(tmp_path / "train.svm.gz"), "CRITEO_TEST": str(tmp_path / "test.svm"), "CRITEO_FEATURES": "1000",
        "CRITEO_EXAMPLES": "1800",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    result = train(
        tmp_path, EXAMPLES / "criteo.py", engine=engine, strategy="ps-async", layout="pw w", batch=50, stop="epochs=5"
    )
    assert result.status == "ok", result.reason
    assert result.updates == 180
    assert result.final.auc is not None
    assert result.final.auc > 0.95


LINE_WORKLOAD = """
import numpy as np
from paceline import TensorFunction, Workload

def line(values, x):
    import tensorflow as tf
    return tf.matmul(x, values["slope"]) + values["offset"]

def train(share):
    random = np.random.default_rng([share.seed, share.index])
    while True:
        x = random.normal(size=(share.batch, 1)).astype(np.float32)
        yield x, 3 * x + 1

WORKLOAD = Workload(
    name="line",
    tensorflow=lambda: TensorFunction(lambda seed: {"slope": np.zeros((1, 1)), "offset": np.zeros(1)}, line),
    loss="squared", train=train, test=lambda: [(np.ones((1, 1), np.float32), np.full((1, 1), 4.0))],
    train_examples=10_000,
)
"""


def test_a_tensor_function_learns_a_line(tmp_path: Path) -> None:
    file = tmp_path / "line.py"
    file.write_text(LINE_WORKLOAD)
    result = train(tmp_path, file, engine="tensorflow", strategy="ps-async", layout="pw", stop="steps=100", lr=0.1)
    assert result.status == "ok", result.reason
    parameters = load_file(Path(result.dir) / "checkpoints" / "final.safetensors")
    assert float(parameters["slope"][0, 0]) == pytest.approx(3, abs=0.05)
    assert float(parameters["offset"][0]) == pytest.approx(1, abs=0.05)
    assert result.final.accuracy is None


FAILING_WORKLOAD = """
import numpy as np
from paceline import Model, Workload
from paceline.layers import Dense

def rows(share):
    yield np.zeros((share.batch, 2)), np.zeros(share.batch, int)
    raise ValueError("the file ends here")

WORKLOAD = Workload(name="broken", model=Model((2,), (Dense(2),)), train=rows, train_examples=1000)
"""


def test_an_error_in_user_code_shows_its_traceback_task_and_host(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(FAILING_WORKLOAD)
    command = [
        sys.executable,
        "-m",
        "paceline",
        "run",
        str(file),
        "--runs",
        str(tmp_path / "runs"),
        "--stop",
        "steps=9",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert completed.returncode == 1
    assert 'raise ValueError("the file ends here")' in completed.stderr
    assert "w0 on h1 failed: ValueError: the file ends here" in completed.stderr.replace("\n", " ")
    assert "paceline/train/loop.py" not in completed.stderr


def test_code_that_cannot_be_loaded_is_rejected_with_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "typo.py"
    file.write_text("import numpy\n\nnumpi.zeros(3)\n")
    assert run_command(["run", str(file)]) == 2
    stderr = capsys.readouterr().err
    assert "line 3" in stderr
    assert "importlib" not in stderr
    assert stderr.splitlines()[-1].endswith("cannot be loaded: NameError: name 'numpi' is not defined")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "has no WORKLOAD that is a paceline.Workload"),
        ("WORKLOAD = 3", "has no WORKLOAD that is a paceline.Workload"),
        ("WORKLOAD = Workload(name='a', train_examples=1, dataset='mnist')", "has no model"),
        ("WORKLOAD = Workload(name='a', train_examples=1, torch=print)", "exactly one of dataset, data and train"),
        (
            "WORKLOAD = Workload(name='a', train_examples=1, dataset='mnist', model=Model((2, 2, 1), (Dense(3),)))",
            "Dense cannot take examples of shape",
        ),
        ("WORKLOAD = Workload(name='a', train_examples=1, dataset='minst', torch=print)", "did you mean mnist"),
        (
            "WORKLOAD = Workload(name='a/b', train_examples=1, dataset='mnist', torch=print)",
            "the name 'a/b' must consist of",
        ),
        ("WORKLOAD = Workload(name='a', train_examples=1, dataset='mnist', torch=print, loss='mse')", "unknown loss"),
        (
            "WORKLOAD = Workload(name='a', train_examples=1, dataset='mnist',"
            " model=Model((4,), (Dense(1), Sigmoid()), 'logistic'))",
            "'logistic' applies the sigmoid itself: remove Sigmoid",
        ),
        ("WORKLOAD = Workload(name='a', train_examples=1, dataset='mnist', model=Model((4,), (), 'mse'))", "not known"),
    ],
)
def test_an_invalid_workload_is_rejected(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(f"from paceline import Model, Workload\nfrom paceline.layers import Dense, Sigmoid\n{text}\n")
    with pytest.raises(SpecError, match=line):
        load_user_workload(str(file))


@pytest.mark.parametrize(
    ("flags", "line"),
    [(["--stop", "loss=0.1"], "has no test set"), (["--examples", "10"], "provides its own examples")],
)
def test_options_that_user_data_does_not_support_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], line: str
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(FAILING_WORKLOAD)
    assert run_command(["run", str(file), *flags]) == 2
    assert line in capsys.readouterr().err


def test_a_changed_file_makes_a_new_run(tmp_path: Path) -> None:
    file = tmp_path / "line.py"
    for text in (LINE_WORKLOAD, LINE_WORKLOAD, LINE_WORKLOAD.replace("3 * x + 1", "2 * x + 1")):
        file.write_text(text)
        train(tmp_path, file, engine="tensorflow", stop="steps=5", name="same")
    assert len(list((tmp_path / "runs").glob("same-*"))) == 2


PROBABILITIES = """
from paceline import Workload

def torch_model():
    from torch import nn
    return nn.Sequential(nn.Linear(784, 10), nn.Softmax(1))

def keras_model():
    import keras
    return keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, activation="softmax")])

WORKLOAD = Workload(
    name="probabilities", torch=torch_model, tensorflow=keras_model, dataset="mnist", train_examples=60_000
)
"""


@pytest.mark.parametrize(
    ("engine", "strategy"),
    [("torch", "ps-sync"), ("tensorflow", "single"), pytest.param("tensorflow", "ps-async", marks=pytest.mark.slow)],
)
def test_a_model_that_ends_in_softmax_is_refused(tmp_path: Path, engine: str, strategy: str) -> None:
    file = tmp_path / "probabilities.py"
    file.write_text(PROBABILITIES)
    result = train(tmp_path, file, engine=engine, strategy=strategy, layout=LAYOUTS[strategy], stop="steps=5")
    assert result.reason == (
        "the outputs of the model are probabilities, but the loss 'softmax' applies softmax itself "
        "and needs logits: remove the softmax at the end of the model"
    )
    assert not result.traceback
    assert result.updates == 0


SIGMOID = """
import numpy as np
from paceline import Workload

def torch_model():
    from torch import nn
    model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()) if SIGMOID else nn.Linear(4, 1)
    if ZERO:
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    return model

def keras_model():
    import keras
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid" if SIGMOID else None)])

def train(share):
    draw = np.random.default_rng(1)
    while True:
        x = draw.random((share.batch, 4)).astype(np.float32)
        yield x, (x.sum(1) > 2).astype(np.float32)

WORKLOAD = Workload(
    name="yes-or-no", torch=torch_model, tensorflow=keras_model, loss="logistic", train=train, train_examples=1000
)
"""


@pytest.mark.parametrize("engine", ["torch", pytest.param("tensorflow", marks=pytest.mark.slow)])
def test_a_model_that_ends_in_a_sigmoid_is_refused_and_logits_are_not(tmp_path: Path, engine: str) -> None:
    for sigmoid, zero in ((True, False), (False, False), (False, True)):
        file = tmp_path / f"model_{sigmoid}_{zero}.py"
        file.write_text(f"SIGMOID, ZERO = {sigmoid}, {zero}\n{SIGMOID}")
        result = train(tmp_path, file, engine=engine, stop="steps=5")
        if sigmoid:
            assert "the loss 'logistic' applies sigmoid itself and needs logits" in (result.reason or "")
        else:
            assert (result.status, result.updates) == ("ok", 5)


FROZEN_WORKLOAD = """
from torch import nn
from paceline import Workload

def build():
    module = nn.Sequential(nn.Linear(784, 200), nn.BatchNorm1d(200), nn.Dropout(0.5), nn.ReLU(), nn.Linear(200, 10))
    module[0].weight.requires_grad_(False)
    return module

WORKLOAD = Workload(name="frozen", torch=build, dataset="mnist", train_examples=60_000)
"""


@pytest.mark.parametrize("strategy", ["single", "ps-async"])
def test_frozen_parameters_and_layers_with_a_training_mode_work(tmp_path: Path, strategy: str) -> None:
    file = tmp_path / "frozen.py"
    file.write_text(FROZEN_WORKLOAD)
    result = train(tmp_path, file, strategy=strategy, layout=LAYOUTS[strategy], stop="steps=200")
    assert result.status == "ok", result.reason
    assert "0.weight" not in load_file(Path(result.dir) / "checkpoints" / "final.safetensors")
    assert result.final.accuracy is not None
    assert result.final.accuracy > 0.75


def test_workloads_are_loaded_from_modules_and_missing_ones_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError, match="there is no file"):
        load_user_workload("nowhere.py")
    with pytest.raises(SpecError, match=r"there is no module no, needed for no\.such\.module:thing"):
        load_user_workload("no.such.module:thing")
    (tmp_path / "user_package").mkdir()
    (tmp_path / "user_package" / "__init__.py").touch()
    (tmp_path / "user_package" / "work.py").write_text(FAILING_WORKLOAD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_user_workload("user_package.work:WORKLOAD").name == "broken"


def test_a_model_for_one_engine_needs_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    for file, engine in (("keras_lenet.py", "tensorflow"), ("torch_lenet.py", "torch"), ("two_moons.py", "torch")):
        (plan,) = pipeline.plan(experiment({"workload": str(EXAMPLES / file)}))
        assert plan.spec.engine == engine
    assert run_command(["run", str(EXAMPLES / "keras_lenet.py"), "--engine", "torch", "--dry-run"]) == 2
    assert "does not run on engine torch: use tensorflow" in capsys.readouterr().err


def test_a_model_for_one_engine_is_rejected_on_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", str(EXAMPLES / "torch_lenet.py"), "--engine", "tensorflow"]) == 2
    assert "does not run on engine tensorflow: use torch" in capsys.readouterr().err
