"""A clock that is told about events accounts for them later, and writes the same records as one that is called."""

import random
from pathlib import Path

import numpy as np
import pytest

from paceline.observe.step_clock import NO_BATCH
from support.training_script import Script, TellingScript


def train_at_random(script: Script, seed: int) -> np.ndarray:
    """Steps with micro-batches, evaluations, exchanges, checkpoints and batches loaded ahead, equal for each seed."""
    choose = random.Random(seed)
    loads_ahead, accumulates, looks = (choose.random() < 0.3 for _ in range(3))
    script.wait(choose.randrange(500))
    if loads_ahead:
        script.load(choose.randrange(9))
    for _step in range(choose.randrange(5, 60)):
        if looks and choose.random() < 0.2:
            script.load(1, examples=5)
        for _micro_batch in range(choose.randrange(1, 4) if accumulates else 1):
            script.load(choose.randrange(9))
            script.wait(choose.random())
            script.forward(choose.randrange(9), examples=8, exchange_ms=choose.choice((0, 0, 3)))
            script.forward(1, examples=NO_BATCH)
            script.backward(choose.randrange(1, 9), exchange_ms=choose.choice((0, 2)), loss=choose.random())
        if choose.random() < 0.1:
            script.exchange(choose.randrange(5))
        script.optimize(choose.randrange(1, 9))
        if choose.random() < 0.1:
            for _batch in range(choose.randrange(1, 5)):
                script.load(2)
                script.forward(3, with_gradients=False, examples=8)
                script.exchange(1)
        if choose.random() < 0.1:
            script.save(choose.randrange(30))
    return script.rows()


@pytest.mark.parametrize("seed", range(20))
def test_events_become_the_same_records_as_calls(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = train_at_random(Script(tmp_path / "called", monkeypatch), seed)
    told = train_at_random(TellingScript(tmp_path / "told", monkeypatch), seed)
    assert len(called)
    assert [str(row) for row in told] == [str(row) for row in called]


def test_steps_are_accounted_for_several_times_per_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = TellingScript(tmp_path / "records", monkeypatch)
    seen = []
    for _ in range(40):
        script.forward(2)
        script.optimize(3)
        seen.append(script.steps)
    late = [step - steps for step, steps in enumerate(seen, 1)]
    assert 0 < max(late) <= 10
    script.rows()
    assert script.steps == 40


def test_slow_steps_are_accounted_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = TellingScript(tmp_path / "records", monkeypatch)
    for step in range(1, 5):
        script.forward(100)
        script.optimize(1)
        assert script.steps == step


def test_the_last_step_of_a_run_is_accounted_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = TellingScript(tmp_path / "records", monkeypatch, last_step=7)
    for _ in range(7):
        script.forward(0.1)
        script.optimize(0.1)
    assert script.steps == 7


def test_what_follows_a_step_gets_the_number_of_steps_made_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank announces the last step of all ranks from there on, which must not be one that it has made."""
    script = TellingScript(tmp_path / "records", monkeypatch)
    numbers = []
    monkeypatch.setattr(script.clock, "_after_steps", lambda steps, _started_ns, _ended_ns: numbers.append(steps))
    made_at_call = []
    for made in range(1, 41):
        before = len(numbers)
        script.forward(2)
        script.optimize(3)
        made_at_call += [made] * (len(numbers) - before)
    assert numbers == made_at_call
    assert len(numbers) > 1
