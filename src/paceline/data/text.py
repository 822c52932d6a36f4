"""Text as sequences of characters: a file of the user's, or text made from a fixed seed.

Characters are the 128 of ASCII; others become the last one. The file is `text.txt` in the folder $PACELINE_DATA. An
example is a window of characters; the target of each is the next one. The last twentieth of the text is the test set.
"""

import os
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.data.batches import Batch, ExampleOrder, Share
from paceline.data.dataset import PreparedData, check_examples
from paceline.errors import DataError

VOCABULARY = 128
EXAMPLES = 16_000
"""Training examples, whatever the length of the text: their windows are spread evenly over it."""
_TEST_EXAMPLES = 500
_TEST_SHARE = 20
"""One of so many characters belongs to the test set."""
_FILE = "text.txt"
_CHARACTERS = 1_000_000
_WORDS = 2_000
_SEED = 0x7E87
_TEST_BATCH = 100

Characters = NDArray[np.uint8]


class TextData(msgspec.Struct, frozen=True):
    """The data set with windows of `context` characters."""

    context: int

    def ensure(self) -> PreparedData:
        """The user's file if there is one, else text that the tasks make themselves."""
        prepared = self.find_prepared()
        for path in prepared.paths:
            _check(path, self.context)
        return prepared

    def find_prepared(self) -> PreparedData:
        folder = os.environ.get("PACELINE_DATA")
        path = Path(folder) / _FILE if folder else None
        if path and path.is_file():
            return PreparedData(paths=(str(path.absolute()),), source=f"text of {path.name}", synthetic=False)
        return PreparedData(paths=(), source="text made from a fixed seed", synthetic=True)

    def load(self, examples: int | None, prepared: PreparedData | None) -> "TextExamples":
        paths = prepared.paths if prepared else ()
        text = _read(paths[0]) if paths else synthetic_text()
        split = len(text) - len(text) // _TEST_SHARE
        return TextExamples(text[:split], text[split:], self.context, check_examples(examples, EXAMPLES))


class TextExamples:
    """Windows of a text."""

    def __init__(self, train: Characters, test: Characters, context: int, examples: int) -> None:
        self._train, self._test, self._context, self._examples = train, test, context, examples

    def stream(self, share: Share) -> "TextStream":
        return TextStream(self._train, self._context, self._examples, share)

    def test(self) -> list[Batch]:
        starts = _starts(np.arange(_TEST_EXAMPLES), _TEST_EXAMPLES, len(self._test), self._context)
        parts = (starts[first : first + _TEST_BATCH] for first in range(0, len(starts), _TEST_BATCH))
        return [_windows(self._test, part, self._context) for part in parts]


class TextStream:
    def __init__(self, text: Characters, context: int, examples: int, share: Share) -> None:
        self._text, self._context, self._examples = text, context, examples
        self._order = ExampleOrder(examples, share)

    def at(self, step: int) -> Batch:
        starts = _starts(self._order.at(step), self._examples, len(self._text), self._context)
        return _windows(self._text, starts, self._context)


def synthetic_text(characters: int = _CHARACTERS) -> Characters:
    """Words of a made-up language in sentences. Each word has four successors, so that there is something to learn."""
    random = np.random.default_rng(_SEED)
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgk", np.uint8)
    weights = 1 / np.arange(2, len(letters) + 2)
    lengths = random.integers(2, 9, _WORDS)
    words = [bytes(random.choice(letters, length, p=weights / weights.sum())) for length in lengths]
    successors = random.integers(0, _WORDS, (_WORDS, 4))
    choices = random.integers(0, 4, characters)
    ends = random.random(characters) < 0.1
    parts, length, word = [], 0, 0
    for number in range(characters):
        parts.append(words[word] + (b". " if ends[number] else b" "))
        length += len(parts[-1])
        if length >= characters:
            break
        word = int(successors[word, choices[number]])
    return np.frombuffer(b"".join(parts)[:characters], np.uint8)


def _read(path: str) -> Characters:
    try:
        text = np.frombuffer(Path(path).read_bytes(), np.uint8)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from None
    return np.minimum(text, VOCABULARY - 1)


def _check(path: str, context: int) -> None:
    shortest = (context + 2) * _TEST_SHARE
    if (size := Path(path).stat().st_size) < shortest:
        raise DataError(f"{path} has {size:,} characters: a text for windows of {context} needs at least {shortest:,}")


def _starts(numbers: NDArray[np.intp], examples: int, characters: int, context: int) -> NDArray[np.intp]:
    """Where the windows of these examples begin, spread evenly over the text."""
    return numbers * (characters - context - 1) // max(1, examples)


def _windows(text: Characters, starts: NDArray[np.intp], context: int) -> Batch:
    positions = starts[:, None] + np.arange(context + 1)
    windows = text[positions].astype(np.int64)
    return Batch((np.ascontiguousarray(windows[:, :-1]),), np.ascontiguousarray(windows[:, 1:]))
