"""The loop of a worker, with a strategy that does as the test says."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from paceline.data.images import LabelledImages
from paceline.recording.layout import RecordKind
from paceline.recording.reader import RecordReader
from paceline.recording.recorder import Recorder
from paceline.recording.rows import decode
from paceline.train.context import TaskContext
from paceline.train.loop import train
from paceline.train.strategy import Step
from paramserver.running_server import JOB, LOGREG, SingleTaskRendezvous


class Scripted:
    """A worker that is not the chief: gives these steps, or raises what stands in a step's place."""

    def __init__(self, recorder: Recorder, script: list[Step | Exception]) -> None:
        self._recorder, self._script = recorder, iter(script)

    def start(self) -> int:
        return 0

    def step(self, batch: object) -> Step:
        with self._recorder.compute:
            given = next(self._script)
        if isinstance(given, Exception):
            raise given
        return given

    def stop_now(self, chief_wants_stop: bool, update: int) -> bool:
        return chief_wants_stop

    def finish(self) -> None:
        with self._recorder.wait:
            pass

    def close(self) -> None:
        pass


def trained(tmp_path: Path, *script: Step | Exception) -> list[tuple[int, RecordKind]]:
    images, labels = np.zeros((20, 784), np.uint8), np.zeros(20, np.int64)
    assert LOGREG.model
    recorder = Recorder(tmp_path / "records")
    context = TaskContext(
        job=msgspec.structs.replace(JOB, task="w1", role="w", index=1, workers=2, batch=10),
        workload=LOGREG,
        model=LOGREG.model,
        data=LabelledImages(train_x=images, train_y=labels, test_x=images, test_y=labels, scale=1.0),
        recorder=recorder,
        rendezvous=SingleTaskRendezvous({}),
    )
    train(context, Scripted(recorder, list(script)))  # type: ignore[arg-type]
    return recorded(tmp_path)


def recorded(tmp_path: Path) -> list[tuple[int, RecordKind]]:
    found = decode(RecordReader(tmp_path / "records").new())
    return [(int(row["step"]), RecordKind(row["kind"])) for row in found]


STEP = [RecordKind.DATA, RecordKind.COMPUTE, RecordKind.STEP]
DROPPED = [RecordKind.DATA, RecordKind.COMPUTE]


def test_steps_have_their_phases_and_what_comes_after_the_last_is_apart(tmp_path: Path) -> None:
    found = trained(tmp_path, Step(0.5, 1), Step(0.5, 2, more=False))
    assert found == [(0, kind) for kind in STEP] + [(1, kind) for kind in STEP] + [(2, RecordKind.WAIT)]


def test_a_step_that_came_too_late_took_its_time_but_is_none(tmp_path: Path) -> None:
    late = Step(0.5, 1, applied=False)
    found = trained(tmp_path, late, Step(0.5, 2), Step(0.5, 2, more=False, applied=False))
    assert [kind for _, kind in found] == DROPPED + STEP + DROPPED + [RecordKind.WAIT]


def test_a_worker_that_loses_its_peers_tells_of_the_step_it_was_in(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        trained(tmp_path, Step(0.5, 1), ConnectionError("gone"))
    assert recorded(tmp_path) == [(0, kind) for kind in STEP] + [(1, kind) for kind in DROPPED]
