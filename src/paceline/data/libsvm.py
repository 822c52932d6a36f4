"""Sparse examples from a LibSVM file of the user's, plain or gzipped, read as a stream.

`label index:value index:value ... # comment`. Labels are -1 or 0, and 1. Indices count from 1, as the format says:
index 0 is an error unless the file is said to count from 0. Every worker reads the whole file, but only its own
lines closely; an epoch ends with the last whole global batch. Lines are taken in the file's order, whatever the seed.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, Share
from paceline.data.libsvm_lines import LineReader, Lines
from paceline.data.libsvm_parse import Limits, parse_line, parse_plain
from paceline.errors import DataError

_PIECE = 2_000


class LibsvmExamples:
    """Batches of (indices from 0, values), filled up with index 0 and value 0, and labels 0 or 1."""

    def __init__(
        self, train_path: Path, test_path: Path, features: int, nonzeros: int, *, zero_based: bool = False
    ) -> None:
        """`nonzeros` is the most that a line may have, and what every example is filled up to."""
        self._train, self._test = Path(train_path), Path(test_path)
        self._limits = Limits(features, nonzeros, zero_based)

    def stream(self, share: Share) -> "LibsvmStream":
        return LibsvmStream(LineReader(self._train), self._limits, share)

    def test(self) -> list[Batch]:
        reader = LineReader(self._test)
        pieces = []
        while len((lines := reader.take(_PIECE)).numbers):
            pieces.append(_blank(len(lines.numbers), self._limits))
            fill(pieces[-1], lines, self._limits, reader.path)
        reader.close()
        if not pieces:
            raise DataError(f"{self._test} has no examples")
        return pieces


class LibsvmStream:
    def __init__(self, reader: LineReader, limits: Limits, share: Share) -> None:
        self._reader, self._limits, self._share = reader, limits, share
        self._batch = _blank(share.batch, limits)
        self._row = 0  # the global batch that the reader stands before
        self._epoch: int | None = None  # global batches in the file, once its end was seen

    def at(self, step: int) -> Batch:
        while (lines := self._find(step)) is None:
            if self._epoch == 0:
                wanted = self._share.batch * self._share.workers
                raise DataError(f"{self._reader.path} has fewer than the {wanted} examples of one global batch")
        fill(self._batch, lines, self._limits, self._reader.path)
        return self._batch

    def _find(self, step: int) -> Lines | None:
        """This worker's lines at a step; None if the file ended before, whose length is known then."""
        row = step % self._epoch if self._epoch else step
        if row < self._row:
            self._rewind()
        batch, whole = self._share.batch, self._share.batch * self._share.workers
        before = self._share.index * batch
        passed = self._reader.skip((row - self._row) * whole)
        self._row += passed // whole
        if self._row == row and self._reader.skip(before) == before:
            lines = self._reader.take(batch)
            after = whole - before - batch
            # Nobody takes his part of a global batch that others would find no part of.
            if len(lines.numbers) == batch and self._reader.skip(after) == after:
                self._row += 1
                return lines
        self._epoch = self._row
        self._rewind()
        return None

    def _rewind(self) -> None:
        self._reader.rewind()
        self._row = 0


def fill(batch: Batch, lines: Lines, limits: Limits, path: Path) -> None:
    """Writes what the lines hold into a batch of as many examples."""
    (indices, values), labels = batch.inputs, batch.target
    indices[...] = 0
    values[...] = 0
    text, rows = lines.text, np.arange(len(lines.numbers))
    # More than once, if at all: numbers are looked at only when all the lines are of the right form.
    while (parsed := parse_plain(text, limits)).odd.any():
        texts = text.split(b"\n")
        for place in np.flatnonzero(parsed.odd).tolist():
            row = rows[place]
            try:
                labels[row], its_indices, its_values = parse_line(texts[place], limits)
            except DataError as why:
                raise DataError(f"{path}, line {lines.numbers[row]}: {why}") from None
            indices[row, : len(its_indices)] = its_indices
            values[row, : len(its_values)] = its_values
        text = b"".join(texts[place] + b"\n" for place in np.flatnonzero(~parsed.odd).tolist())
        rows = rows[~parsed.odd]
    labels[rows] = parsed.labels
    places = _places(rows, parsed.counts, limits.nonzeros)
    indices.reshape(-1)[places] = parsed.indices
    values.reshape(-1)[places] = parsed.values


def _places(rows: NDArray[np.intp], counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Where in a table of so many columns the entries of lines go, line after line, to the left."""
    firsts = np.cumsum(counts) - counts
    return np.repeat(rows * width - firsts, counts) + np.arange(counts.sum())


def _blank(examples: int, limits: Limits) -> Batch:
    shape = examples, limits.nonzeros
    return Batch((np.zeros(shape, np.int64), np.zeros(shape, np.float32)), np.zeros(examples, np.int64))
