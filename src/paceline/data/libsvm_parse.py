"""Parses lines `label index:value index:value ...`, with a fast and a general parser.

The fast parser (`parse_regular`) parses many lines at once with NumPy; it knows numbers made of digits with at most one
sign and one decimal point. A line with anything else, or with an error, is irregular and goes to the general parser
(`parse_line`), which knows all forms of numbers and says what is wrong.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

Bytes = NDArray[np.uint8]
Positions = NDArray[np.intp]
Numbers = NDArray[np.int64]


class Limits(NamedTuple):
    """What a line may contain."""

    features: int
    nonzeros: int
    """The largest number of pairs in a line."""
    zero_based: bool
    """Whether indices start at 0 instead of 1."""


class Parsed(NamedTuple):
    """The content of several lines, one after the other."""

    labels: Numbers
    counts: Numbers
    """The number of pairs of each line."""
    indices: Numbers
    """Indices from 0."""
    values: NDArray[np.float64]
    irregular: NDArray[np.bool_]
    """The lines that need the general parser; if there are any, the other fields are empty."""


def parse_line(line: bytes, limits: Limits) -> tuple[int, list[int], list[float]]:
    """The label (0 or 1), the indices (from 0) and the values of one line; a DataError says what is wrong with it."""
    label, *pairs = line.split()
    number = _number(label)
    if number not in (-1, 0, 1):
        raise DataError(f"label {_quoted(label)} is none of -1, 0 and 1")
    if len(pairs) > limits.nonzeros:
        raise DataError(f"{len(pairs)} index:value pairs: at most {limits.nonzeros} are allowed")
    indices, values = [], []
    for pair in pairs:
        index, colon, value = pair.partition(b":")
        if not colon or not index.isdigit():
            raise DataError(f"{_quoted(pair)} is not index:value")
        indices.append(_index(index, limits))
        values.append(_number(value))
    return int(number > 0), indices, values


def _index(text: bytes, limits: Limits) -> int:
    first = 0 if limits.zero_based else 1
    last = limits.features - 1 + first
    index = int(text) if len(text) <= _MAX_INDEX_DIGITS else last + 1
    if index < first:
        raise DataError("index 0, but indices start at 1: set zero_based=True if the file counts from 0")
    if index > last:
        raise DataError(f"index {_quoted(text)} is larger than {last}, the last feature")
    return index - first


def _number(text: bytes) -> float:
    if not _NUMBER.fullmatch(text):
        problem = "not finite" if text.lower().lstrip(b"+-") in _NOT_FINITE else "not a number"
        raise DataError(f"{_quoted(text)} is {problem}")
    number = float(text)
    if abs(number) > _MAX_FLOAT32:
        raise DataError(f"{_quoted(text)} is not finite in single precision")
    return number


def _quoted(text: bytes) -> str:
    shown = text[:40].decode("ascii", "replace")
    return f"'{shown}...'" if len(text) > 40 else f"'{shown}'"


_MAX_INDEX_DIGITS = 18
"""An index of more digits is too large for any file, and is not converted."""
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = (b"nan", b"inf", b"infinity")


def parse_regular(text: bytes, limits: Limits) -> Parsed:
    """Parse lines that all end with a newline and do not begin with a space.

    The text is described by its separators, which are the bytes that are not digits. `at` has their positions in the
    text, `kind` what they are, and `digits` the number of digits before each. All other positions here are indices into
    these three arrays.
    """
    padded = _PAD + text
    raw = np.frombuffer(padded, np.uint8)
    at = np.flatnonzero(raw - np.uint8(ord("0")) > 9)[len(_PAD) - 1 :]
    kind = _KIND[raw[at]]
    digits = np.diff(at, prepend=at[0]) - 1
    transitions = kind[1:] * np.uint8(2) + (digits[1:] > 0)
    wrong = ~_ALLOWED[kind[:-1] * np.uint8(16) + transitions] | (digits[1:] > _MAX_DIGITS)
    newlines = np.flatnonzero(kind == _NEWLINE)
    if wrong.any():
        return _irregular(newlines, np.flatnonzero(wrong) + 1)

    colons = np.flatnonzero(kind == _COLON)
    # Every label and every value ends with digits before a blank or a newline; a label comes after a newline.
    ends = np.flatnonzero((kind < _COLON) & (digits > 0))
    is_label = kind[_before_numbers(kind, ends)] == _NEWLINE
    label_ends, value_ends = ends[is_label], ends[~is_label]
    labels = raw[at[label_ends] - 1].astype(np.int64) - ord("0")
    bad_label = (labels > 1) | (digits[label_ends] > 1) | (kind[label_ends - 1] == _POINT)
    labels[raw[at[label_ends - 1]] == ord("-")] = 0

    indices = _integers(padded, raw, at[colons], digits[colons])
    if not limits.zero_based:
        indices -= 1
    values, too_long = _decimals(padded, raw, at, kind, digits, value_ends)
    counts = np.diff(np.searchsorted(colons, newlines))
    bad_pair = (indices < 0) | (indices >= limits.features) | too_long
    if bad_label.any() or bad_pair.any() or (counts > limits.nonzeros).any():
        too_many = newlines[1:][counts > limits.nonzeros]
        return _irregular(newlines, np.concatenate((label_ends[bad_label], colons[bad_pair], too_many)))
    return Parsed(labels, counts, indices, values, np.zeros(len(labels), np.bool_))


def _irregular(newlines: Positions, separators: Positions) -> Parsed:
    """A result that has nothing but the lines, marked irregular, in which these separators are."""
    irregular = np.zeros(len(newlines) - 1, np.bool_)
    irregular[np.searchsorted(newlines, separators) - 1] = True
    empty = np.zeros(0, np.int64)
    return Parsed(empty, empty, empty, np.zeros(0), irregular)


def _before_numbers(kind: Bytes, ends: Positions) -> Positions:
    """The separator before each number that ends at `ends`; the sign and the point of the number do not count."""
    before = ends - 1
    before -= kind[before] == _POINT
    before -= kind[before] == _SIGN
    return before


def _decimals(
    padded: bytes, raw: Bytes, at: Positions, kind: Bytes, digits: Positions, ends: Positions
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers that end at these separators, and which of them have too many digits to be computed exactly."""
    last = _integers(padded, raw, at[ends], digits[ends])
    has_point = kind[ends - 1] == _POINT
    too_long = np.zeros(len(ends), np.bool_)
    values = last.astype(np.float64)
    if has_point.any():
        points = ends[has_point] - 1
        decimals = digits[points + 1]
        too_long[has_point] = decimals + digits[points] > _MAX_DIGITS
        first = _integers(padded, raw, at[points], digits[points])
        # A float represents both integers exactly, so their quotient is rounded like the result of float().
        values[has_point] = (first * _POWERS[decimals] + last[has_point]) / _POWERS[decimals]
    negative = raw[at[_before_numbers(kind, ends) + 1]] == ord("-")
    values[negative] *= -1
    return values, too_long


def _integers(padded: bytes, raw: Bytes, ends: Positions, digits: Positions) -> Numbers:
    """The integers of `digits[i]` digits that end before the byte `ends[i]` of the text."""
    most = int(digits.max(initial=1))
    if most == 1:
        return raw[ends - 1].astype(np.int64) - ord("0")
    windows: NDArray[np.uint64] = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
    low = _parse_8_digits(windows[ends - 8] & _LAST_BYTES[np.minimum(digits, 8)])
    if most <= 8:
        return low
    return _parse_8_digits(windows[ends - 16] & _LAST_BYTES[np.maximum(digits - 8, 0)]) * 10**8 + low


def _parse_8_digits(words: NDArray[np.uint64]) -> Numbers:
    """The integers in words of eight ASCII digits: neighbouring digits are joined to 2, then 4, then 8 digits."""
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    for factor, shift, mask in _JOINS:
        words *= factor
        words >>= shift
        words &= mask
    return words.view(np.int64)


_PAD = b"\n" * 16
"""Put before the text, so that every line has a newline before it and 16 bytes can be read before any number."""
_MAX_DIGITS = 15
"""A float64 represents every integer of this many digits exactly."""
_NEWLINE, _BLANK, _COLON, _SIGN, _POINT, _OTHER = range(6)
_KIND = np.full(256, _OTHER, np.uint8)
_KIND[list(b"\t\v\f\r ")] = _BLANK
for _mark, _kind in ((b"\n", _NEWLINE), (b":", _COLON), (b"+-", _SIGN), (b".", _POINT)):
    _KIND[list(_mark)] = _kind

_DIGITS, _NO_DIGITS = True, False
_ALLOWED = np.zeros(16 * 6, np.bool_)
"""Whether a separator, digits or no digits, and the next separator may follow each other in a regular line."""
for _before, _between, _after in (
    *((_NEWLINE, _DIGITS, after) for after in (_BLANK, _NEWLINE)),  # the end of a label
    *((before, _NO_DIGITS, _SIGN) for before in (_NEWLINE, _COLON)),  # the sign of a label or of a value
    (_BLANK, _DIGITS, _COLON),  # an index
    *((_BLANK, _NO_DIGITS, after) for after in (_BLANK, _NEWLINE)),  # additional space
    *((before, _DIGITS, _POINT) for before in (_COLON, _SIGN)),  # the digits of a value before its point
    *(
        (before, _DIGITS, after) for before in (_COLON, _SIGN, _POINT) for after in (_BLANK, _NEWLINE)
    ),  # the end of a value
):
    _ALLOWED[_before * 16 + _after * 2 + _between] = True

_POWERS = 10 ** np.arange(_MAX_DIGITS + 1)
# Masks that keep the last 0 to 8 bytes of a little-endian word.
_LAST_BYTES = np.array([(2**64 - 1) ^ (2 ** (64 - 8 * kept) - 1) for kept in range(9)], np.uint64)
# For each round of `_parse_8_digits`: the factor that adds each pair of neighbours, the shift and the mask.
_JOINS = tuple(
    (np.uint64(factor), np.uint64(shift), np.uint64(mask))
    for factor, shift, mask in (
        (10 * 2**8 + 1, 8, 0x00FF_00FF_00FF_00FF),
        (100 * 2**16 + 1, 16, 0x0000_FFFF_0000_FFFF),
        (10_000 * 2**32 + 1, 32, 0x0000_0000_FFFF_FFFF),
    )
)
