"""Takes what agents send and puts it where it belongs: store, TensorBoard, and the picture of the moment."""

import numpy as np

from paceline.control.run_state import RunState
from paceline.control.tensorboard_writer import TensorboardWriter
from paceline.messages import Attached, Log, Records, Samples
from paceline.recording.rows import as_written
from paceline.store.journal import HostSamples, TaskRecords
from paceline.store.writer import RunWriter


class Ingest:
    def __init__(self, writer: RunWriter, moment: RunState) -> None:
        self._writer, self.moment = writer, moment
        # Opened now: loading what writes them would else take a core from the first steps.
        self._boards = {
            place.task: TensorboardWriter(writer.paths.board(place.task), moment.plan.step_gives)
            for place in moment.plan.workers
        }

    def records(self, message: Records) -> np.ndarray:
        """Keeps them; returns them as they were written: to make rows of them has time until the run is over."""
        self._writer.add(TaskRecords(message.task, message.data))
        records = as_written(message.data)
        self.moment.add_records(message.task, records)
        if board := self._boards.get(message.task):
            with self._writer.keeping():
                board.add(records)
        return records

    def samples(self, host: str, message: Samples) -> None:
        self._writer.add(HostSamples(host, message.samples))
        self.moment.add_samples(host, message.samples)

    def log(self, message: Log) -> None:
        self._writer.log(message.task, message.text)

    def attached(self, task: str, message: Attached) -> None:
        self._writer.attach(task, message.kind, message.name, message.data, last=message.last)

    def close(self) -> None:
        for board in self._boards.values():
            with self._writer.keeping():
                board.close()
