"""Receives what agents send: stores it in the run directory, and updates the TensorBoard files and the live state."""

import numpy as np

from paceline.control.run_state import RunState
from paceline.control.tensorboard_writer import TensorboardWriter
from paceline.messages import Attached, Log, Records, Samples
from paceline.recording.rows import as_written
from paceline.store.journal import HostSamples, TaskRecords
from paceline.store.writer import RunWriter


class Ingest:
    """Stores records, samples, logs and attached files of one run as they arrive."""

    def __init__(self, writer: RunWriter, state: RunState) -> None:
        self._writer, self.state = writer, state
        # Created before training: a writer imports protobuf, which would take CPU time from the first steps.
        self._tensorboard = {
            place.task: TensorboardWriter(writer.paths.tensorboard_of(place.task), state.plan.step_gives)
            for place in state.plan.workers
        }

    def records(self, message: Records) -> np.ndarray:
        """Stores step records unchanged and returns them as an array. They are split into rows only after the run."""
        self._writer.add(TaskRecords(message.task, message.data))
        records = as_written(message.data)
        self.state.add_records(message.task, records)
        if tensorboard := self._tensorboard.get(message.task):
            with self._writer.catch_disk_errors():
                tensorboard.add(records)
        return records

    def samples(self, host: str, message: Samples) -> None:
        self._writer.add(HostSamples(host, message.samples))
        self.state.add_samples(host, message.samples)

    def log(self, message: Log) -> None:
        self._writer.log(message.task, message.text)

    def attached(self, task: str, message: Attached) -> None:
        self._writer.attach(task, message.kind, message.name, message.data, last=message.last)

    def close(self) -> None:
        for tensorboard in self._tensorboard.values():
            with self._writer.catch_disk_errors():
                tensorboard.close()
