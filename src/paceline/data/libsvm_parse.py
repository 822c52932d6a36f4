"""`label index:value index:value ...`: a reader of many plain lines at once, and a patient one for the rest.

The quick one knows digits, one sign and one point. A line with anything else in it, or with anything wrong, goes to
the patient one, which knows all the numbers there are and says what is wrong.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.errors import DataError

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]
Numbers = NDArray[np.int64]


class Limits(NamedTuple):
    features: int
    nonzeros: int
    zero_based: bool


class Parsed(NamedTuple):
    """What lines hold, one after the other."""

    labels: Numbers
    counts: Numbers
    """pairs of each line"""
    indices: Numbers
    """counted from 0"""
    values: NDArray[np.float64]
    odd: NDArray[np.bool_]
    """lines that the patient reader must look at: if there are any, nothing else here counts"""


def parse_line(line: bytes, limits: Limits) -> tuple[int, list[int], list[float]]:
    """Label, indices counted from 0, and values; a DataError says what is wrong, but not where."""
    label, *pairs = line.split()
    answer = _number(label)
    if answer not in (-1, 0, 1):
        raise DataError(f"label {_quoted(label)} is none of -1, 0 and 1")
    if len(pairs) > limits.nonzeros:
        raise DataError(f"{len(pairs)} non-zeros where {limits.nonzeros} are allowed")
    indices, values = [], []
    for pair in pairs:
        index, colon, value = pair.partition(b":")
        if not colon or not index.isdigit():
            raise DataError(f"{_quoted(pair)} is not index:value")
        indices.append(_index(index, limits))
        values.append(_number(value))
    return int(answer > 0), indices, values


def _index(text: bytes, limits: Limits) -> int:
    first = 0 if limits.zero_based else 1
    last = limits.features - 1 + first
    index = int(text) if len(text) <= _LONGEST_INDEX else last + 1
    if index < first:
        raise DataError("index 0 in a file that counts from 1: say so if it counts from 0")
    if index > last:
        raise DataError(f"index {_quoted(text)} is beyond {last}, the last feature")
    return index - first


def _number(text: bytes) -> float:
    if not _NUMBER.fullmatch(text):
        what = "not finite" if text.lower().lstrip(b"+-") in _NOT_FINITE else "not a number"
        raise DataError(f"{_quoted(text)} is {what}")
    number = float(text)
    if abs(number) > _LARGEST:
        raise DataError(f"{_quoted(text)} is not finite in single precision")
    return number


def _quoted(text: bytes) -> str:
    shown = text[:40].decode("ascii", "replace")
    return f"'{shown}...'" if len(text) > 40 else f"'{shown}'"


_LONGEST_INDEX = 18  # digits
_LARGEST = float(np.finfo(np.float32).max)
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = (b"nan", b"inf", b"infinity")


def parse_plain(text: bytes, limits: Limits) -> Parsed:
    """Lines that each begin with something other than space and end with a newline."""
    padded = _PAD + text
    raw = np.frombuffer(padded, np.uint8)
    # Everything is told by the bytes that are no digits, and by how many digits there are between them.
    at = np.flatnonzero(raw - np.uint8(ord("0")) > 9)[len(_PAD) - 1 :]
    kind = _KIND[raw[at]]
    digits = np.diff(at, prepend=at[0]) - 1
    follows = kind[1:] * np.uint8(2) + (digits[1:] > 0)
    wrong = ~_FOLLOWS[kind[:-1] * np.uint8(16) + follows] | (digits[1:] > _MOST_DIGITS)
    newlines = np.flatnonzero(kind == _NEWLINE)
    if wrong.any():
        return _odd(newlines, np.flatnonzero(wrong) + 1)

    colons = np.flatnonzero(kind == _COLON)
    ends = np.flatnonzero((kind < _COLON) & (digits > 0))
    labelled = kind[_openings(kind, ends)] == _NEWLINE
    label_ends, value_ends = ends[labelled], ends[~labelled]
    labels = raw[at[label_ends] - 1].astype(np.int64) - ord("0")
    bad_label = (labels > 1) | (digits[label_ends] > 1) | (kind[label_ends - 1] == _POINT)
    labels[raw[at[label_ends - 1]] == ord("-")] = 0

    indices = _whole(padded, raw, at[colons], digits[colons])
    if not limits.zero_based:
        indices -= 1
    values, inexact = _decimal(padded, raw, at, kind, digits, value_ends)
    counts = np.diff(np.searchsorted(colons, newlines))
    bad_pair = (indices < 0) | (indices >= limits.features) | inexact
    if bad_label.any() or bad_pair.any() or (counts > limits.nonzeros).any():
        too_many = newlines[1:][counts > limits.nonzeros]
        return _odd(newlines, np.concatenate((label_ends[bad_label], colons[bad_pair], too_many)))
    return Parsed(labels, counts, indices, values, np.zeros(len(labels), np.bool_))


def _odd(newlines: Places, suspects: Places) -> Parsed:
    """Nothing but which lines the suspect places are in."""
    odd = np.zeros(len(newlines) - 1, np.bool_)
    odd[np.searchsorted(newlines, suspects) - 1] = True
    none = np.zeros(0, np.int64)
    return Parsed(none, none, none, np.zeros(0), odd)


def _openings(kind: Bytes, ends: Places) -> Places:
    """What stands before each number, its sign and point left out."""
    before = ends - 1
    before -= kind[before] == _POINT
    before -= kind[before] == _SIGN
    return before


def _decimal(
    padded: bytes, raw: Bytes, at: Places, kind: Bytes, digits: Places, ends: Places
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers that end at these places, and which have more digits than a float can take at once."""
    last = _whole(padded, raw, at[ends], digits[ends])
    pointed = kind[ends - 1] == _POINT
    inexact = np.zeros(len(ends), np.bool_)
    values = last.astype(np.float64)
    if pointed.any():
        points = ends[pointed] - 1
        places = digits[points + 1]
        inexact[pointed] = places + digits[points] > _MOST_DIGITS
        first = _whole(padded, raw, at[points], digits[points])
        # Both are whole numbers that a float holds exactly: their quotient is as near as float() gets.
        values[pointed] = (first * _POWERS[places] + last[pointed]) / _POWERS[places]
    negative = raw[at[_openings(kind, ends) + 1]] == ord("-")
    values[negative] *= -1
    return values, inexact


def _whole(padded: bytes, raw: Bytes, ends: Places, digits: Places) -> Numbers:
    """The numbers whose last digits stand before these places."""
    most = int(digits.max(initial=1))
    if most == 1:
        return raw[ends - 1].astype(np.int64) - ord("0")
    windows: NDArray[np.uint64] = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))
    low = _eight(windows[ends - 8] & _LAST_BYTES[np.minimum(digits, 8)])
    if most <= 8:
        return low
    return _eight(windows[ends - 16] & _LAST_BYTES[np.maximum(digits - 8, 0)]) * 10**8 + low


def _eight(words: NDArray[np.uint64]) -> Numbers:
    """The numbers that words of eight digits spell: neighbours are joined to pairs, fours and eights."""
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    for factor, shift, mask in _JOINS:
        words *= factor
        words >>= shift
        words &= mask
    return words.view(np.int64)


_PAD = b"\n" * 16  # room for windows, and what comes before the first line
_MOST_DIGITS = 15  # fit any float
_NEWLINE, _BLANK, _COLON, _SIGN, _POINT, _OTHER = range(6)
_KIND = np.full(256, _OTHER, np.uint8)
_KIND[list(b"\t\v\f\r ")] = _BLANK
for _mark, _kind in ((b"\n", _NEWLINE), (b":", _COLON), (b"+-", _SIGN), (b".", _POINT)):
    _KIND[list(_mark)] = _kind

_DIGITS, _NO_DIGITS = True, False
_FOLLOWS = np.zeros(16 * 6, np.bool_)
for _before, _between, _after in (
    *((_NEWLINE, _DIGITS, after) for after in (_BLANK, _NEWLINE)),  # a label
    *((before, _NO_DIGITS, _SIGN) for before in (_NEWLINE, _COLON)),  # the sign of a label, of a value
    (_BLANK, _DIGITS, _COLON),  # an index
    *((_BLANK, _NO_DIGITS, after) for after in (_BLANK, _NEWLINE)),  # more space than needed
    *((before, _DIGITS, _POINT) for before in (_COLON, _SIGN)),  # a value up to its point
    *((before, _DIGITS, after) for before in (_COLON, _SIGN, _POINT) for after in (_BLANK, _NEWLINE)),  # a value
):
    _FOLLOWS[_before * 16 + _after * 2 + _between] = True

_POWERS = 10 ** np.arange(_MOST_DIGITS + 1)
_LAST_BYTES = np.array([(2**64 - 1) ^ (2 ** (64 - 8 * kept) - 1) for kept in range(9)], np.uint64)
_JOINS = tuple(
    (np.uint64(factor), np.uint64(shift), np.uint64(mask))
    for factor, shift, mask in (
        (10 * 2**8 + 1, 8, 0x00FF_00FF_00FF_00FF),
        (100 * 2**16 + 1, 16, 0x0000_FFFF_0000_FFFF),
        (10_000 * 2**32 + 1, 32, 0x0000_0000_FFFF_FFFF),
    )
)
