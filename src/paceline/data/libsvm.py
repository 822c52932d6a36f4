"""Sparse examples from a user's LibSVM file, uncompressed or gzipped, read as a stream.

A line is `label index:value index:value ... # comment`. Labels are 1 and either -1 or 0. Indices start at 1, as in the
format's definition: index 0 is an error unless `zero_based` is set. Of one training file, every worker reads the whole
file but parses only its own lines; an epoch ends with the last complete global batch. Several training files are spread
over the workers (see own_files.py). Examples are in the order of the file, whatever the seed.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from paceline.data.batches import Batch, Share
from paceline.data.libsvm_lines import LineReader, Lines
from paceline.data.libsvm_parse import Limits, parse_line, parse_regular
from paceline.data.own_files import FilesStream, own_files
from paceline.errors import DataError

_TEST_BATCH = 2_000


class LibsvmExamples:
    """Batches of (indices from 0, values) and labels 0 or 1; short examples are padded with index 0 and value 0."""

    def __init__(
        self,
        train_path: Path | Sequence[Path],
        test_path: Path,
        features: int,
        nonzeros: int,
        *,
        zero_based: bool = False,
    ) -> None:
        """`nonzeros` is the largest number of pairs in a line; every example is padded to it.

        With a list of training files, each worker reads only its own: a file needs to exist only on its host.
        """
        self._train = Path(train_path) if isinstance(train_path, str | Path) else [Path(path) for path in train_path]
        self._test = Path(test_path)
        self._limits = Limits(features, nonzeros, zero_based)

    def stream(self, share: Share) -> "LibsvmStream | FilesStream":
        if isinstance(self._train, Path):
            return LibsvmStream(LineReader(self._train), self._limits, share)
        paths, alone = own_files(self._train, share), replace(share, workers=1, index=0)
        files = [LibsvmStream(LineReader(path), self._limits, alone) for path in paths]
        return FilesStream(files, paths, share.batch)

    def test(self) -> list[Batch]:
        reader = LineReader(self._test)
        batches = []
        while len((lines := reader.take(_TEST_BATCH)).numbers):
            batches.append(_zeros(len(lines.numbers), self._limits))
            _fill(batches[-1], lines, self._limits, reader.path)
        reader.close()
        if not batches:
            raise DataError(f"{self._test} has no examples")
        return batches


class LibsvmStream:
    """The batches of one worker. Consecutive steps read the file once; a step back reads it again from the start."""

    def __init__(self, reader: LineReader, limits: Limits, share: Share) -> None:
        self._reader, self._limits, self._share = reader, limits, share
        self._batch = _zeros(share.batch, limits)
        self._next_batch = 0
        """The global batch at which the reader stands."""
        self._batches_per_epoch: int | None = None
        """Complete global batches in the file; None until its end was reached."""

    def at(self, step: int) -> Batch:
        while (lines := self._find(step)) is None:
            if self._batches_per_epoch == 0:
                needed = self._share.batch * self._share.workers
                raise DataError(f"{self._reader.path} has fewer than the {needed} examples of one global batch")
        _fill(self._batch, lines, self._limits, self._reader.path)
        return self._batch

    @property
    def batches(self) -> int | None:
        """Complete global batches in the file; None until its end was reached."""
        return self._batches_per_epoch

    def find(self, number: int) -> Batch | None:
        """The batch with this number in the file; None if the file has fewer."""
        if self._batches_per_epoch is not None and number >= self._batches_per_epoch:
            return None
        lines = self._find(number)
        if lines is None:
            return None
        _fill(self._batch, lines, self._limits, self._reader.path)
        return self._batch

    def _find(self, step: int) -> Lines | None:
        """The lines of this worker at a step; None if the file ended before, after which its length is known."""
        number = step % self._batches_per_epoch if self._batches_per_epoch else step
        if number < self._next_batch:
            self._rewind()
        batch, global_batch = self._share.batch, self._share.batch * self._share.workers
        before = self._share.index * batch
        skipped = self._reader.skip((number - self._next_batch) * global_batch)
        self._next_batch += skipped // global_batch
        if self._next_batch == number and self._reader.skip(before) == before:
            lines = self._reader.take(batch)
            after = global_batch - before - batch
            # Use the lines only if the global batch is complete, so that all workers end the epoch at the same step.
            if len(lines.numbers) == batch and self._reader.skip(after) == after:
                self._next_batch += 1
                return lines
        self._batches_per_epoch = self._next_batch
        self._rewind()
        return None

    def _rewind(self) -> None:
        self._reader.rewind()
        self._next_batch = 0


def _fill(batch: Batch, lines: Lines, limits: Limits, path: Path) -> None:
    """Parse the lines into a batch of the same number of examples."""
    (indices, values), labels = batch.inputs, batch.target
    indices[...] = 0
    values[...] = 0
    text, rows = lines.text, np.arange(len(lines.numbers))
    # Parse irregular lines one by one and the rest again: `parse_regular` checks numbers only once the form of all
    # lines is regular, so it can find irregular lines twice.
    while (parsed := parse_regular(text, limits)).irregular.any():
        texts = text.split(b"\n")
        for position in np.flatnonzero(parsed.irregular).tolist():
            row = rows[position]
            try:
                labels[row], line_indices, line_values = parse_line(texts[position], limits)
            except DataError as error:
                raise DataError(f"{path}, line {lines.numbers[row]}: {error}") from None
            indices[row, : len(line_indices)] = line_indices
            values[row, : len(line_values)] = line_values
        text = b"".join(texts[position] + b"\n" for position in np.flatnonzero(~parsed.irregular).tolist())
        rows = rows[~parsed.irregular]
    labels[rows] = parsed.labels
    positions = _flat_positions(rows, parsed.counts, limits.nonzeros)
    indices.reshape(-1)[positions] = parsed.indices
    values.reshape(-1)[positions] = parsed.values


def _flat_positions(rows: NDArray[np.intp], counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """The flat positions, in a table of `width` columns, of the first `counts[i]` cells of each row `rows[i]`."""
    firsts = np.cumsum(counts) - counts
    return np.repeat(rows * width - firsts, counts) + np.arange(counts.sum())


def _zeros(examples: int, limits: Limits) -> Batch:
    shape = examples, limits.nonzeros
    return Batch((np.zeros(shape, np.int64), np.zeros(shape, np.float32)), np.zeros(examples, np.int64))
