"""Training files that are spread over the workers: worker i of n reads the files i, i + n, i + 2n and so on.

A file needs to exist only where its worker runs. Batches do not span files: the last incomplete batch of each file is
left out. Each worker begins its files again when it has read them all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from paceline.data.batches import Batch, Share
from paceline.errors import DataError


class FileBatches(Protocol):
    """The batches of one file, for one worker."""

    @property
    def batches(self) -> int | None:
        """Complete batches in the file; None until its end was reached."""
        ...

    def find(self, number: int) -> Batch | None:
        """The batch with this number; None if the file has fewer, after which `batches` is known."""
        ...


def own_files(files: Sequence[Path], share: Share) -> list[Path]:
    """The files of this worker; DataError if there are fewer files than workers."""
    if len(files) < share.workers:
        raise DataError(f"{len(files)} training files for {share.workers} workers: each worker needs at least one file")
    return list(files[share.index :: share.workers])


class FilesStream:
    """The batches of one worker, file by file."""

    def __init__(self, files: Sequence[FileBatches], names: Sequence[Path], batch: int) -> None:
        self._files, self._names, self._batch = files, names, batch

    def at(self, step: int) -> Batch:
        counts = [file.batches for file in self._files]
        if None not in counts:
            step %= self._total()
        number = step
        for file in self._files:
            batch = file.find(number)
            if batch is not None:
                return batch
            number -= file.batches or 0
        return self.at(step)  # The length of every file is known now.

    def _total(self) -> int:
        """Batches in all files of this worker."""
        total = sum(file.batches or 0 for file in self._files)
        if not total:
            names = ", ".join(map(str, self._names))
            raise DataError(f"{names}: fewer than the {self._batch} examples of one batch")
        return total
