"""The stacks of a script are counted by phase, without the frames of Paceline and with the lines of the user's code."""

import sys
import sysconfig
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from paceline.observe import main_module
from paceline.observe.stack_sampler import StackSampler
from paceline.observe.step_clock import BACKWARD, StepClock
from paceline.recording.recorder import Recorder

SCRIPT = """
def collate(sample):
    sample()

def load(sample):
    for _ in range(3):
        collate(sample)
"""


@pytest.fixture
def sampler(tmp_path: Path) -> StackSampler:
    clock = StepClock(Recorder(tmp_path / "records"), lambda: None, lambda *_: None)
    return StackSampler(clock, 0.0)


@pytest.fixture
def script(tmp_path: Path) -> ModuleType:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    spec = spec_from_file_location("train", file)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stacks_end_with_the_line_of_the_users_code(sampler: StackSampler, script: ModuleType) -> None:
    script.load(sampler.sample)
    sampler._clock.phase = BACKWARD
    script.load(sampler.sample)
    stacks = sampler.stacks()
    assert {stack[0] for stack in stacks} == {"other", "backward"}
    assert {stack[-2:] for stack in stacks} == {("load (train.py:7)", "collate (train.py:3)")}
    assert list(stacks.values()) == [3, 3]
    assert {(line.phase, line.where, line.samples, line.of) for line in sampler.lines()} == {
        ("other", "collate, train.py:3", 3, 3), ("backward", "collate, train.py:3", 3, 3),
    }  # fmt: skip


def test_a_library_function_is_shown_without_lines_and_counts_for_the_line_that_calls_it(
    sampler: StackSampler, tmp_path: Path
) -> None:
    (tmp_path / "calls.py").write_text("import json\njson.loads('{\"a\": 1}', object_pairs_hook=HOOK)\n")
    hook: Callable[[object], None] = lambda _pairs: sampler.sample()  # noqa: E731
    code = (tmp_path / "calls.py").read_text()
    exec(compile(code, str(tmp_path / "calls.py"), "exec"), {"HOOK": hook})
    (stack,) = sampler.stacks()
    assert "loads (json/__init__.py)" in stack
    assert str(Path(sysconfig.get_path("stdlib"))) not in "".join(stack)
    assert "<module> (calls.py:2)" in stack


def test_frames_of_paceline_around_the_script_are_left_out(
    sampler: StackSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.py"
    path.write_text("import sys\nsys.sampler.sample()\n")
    monkeypatch.setattr(sys, "sampler", sampler, raising=False)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    main_module.run_script(path, "train.py", ())
    assert list(sampler.stacks()) == [("other", "<module> (train.py:2)")]
