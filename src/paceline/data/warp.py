"""Turns, scales and shifts small grey pictures: a bilinear warp in fixed-point arithmetic, many pictures at once.

Whole numbers are what makes it fast (the four corners of a pixel are one word, fetched once and blended two at a
time) and the same on every machine.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 28
PLACED = 40

_MARGIN = 1  # of black pixels: what lies outside is clipped to it
_PADDED = SIDE + 2 * _MARGIN
_ONE = 256  # fixed point: a pixel
_FRACTION = 8
_CHUNK = 50  # pictures at once: their arrays stay in the processor's cache
_TWO_BYTES = np.uint32(0x00FF_00FF)
_LOW_HALF = np.uint32(0x0000_FFFF)
_SCALE = np.float32(1 / 255 / _ONE / _ONE)

Floats = NDArray[np.float64]


class Placement(NamedTuple):
    """Where pictures go: arrays with an entry for each."""

    turn: Floats
    """radians"""
    size: Floats
    """1 keeps it"""
    right: Floats
    """pixels, of the centre"""
    down: Floats


class Warp:
    """Holds the pictures, and the room to work in."""

    def __init__(self, pictures: NDArray[np.uint8]) -> None:
        """[pictures, 28 x 28]"""
        self._pictures = pictures
        self._corners = np.zeros((_CHUNK, _PADDED, _PADDED, 4), np.uint8)
        self._first = np.arange(_CHUNK, dtype=np.int32)[:, None, None] * np.int32(_PADDED * _PADDED)
        room = (_CHUNK, PLACED, PLACED)
        self._x, self._y, self._down = (np.empty(room, np.int32) for _ in range(3))
        self._where = np.empty(room, np.intp)
        self._left, self._right, self._across = (np.empty(room, np.uint32) for _ in range(3))

    def __call__(self, chosen: NDArray[np.integer], placed: Placement, out: NDArray[np.float32]) -> None:
        """Writes the chosen pictures, placed, as rows of 40 x 40 floats from 0 to 1."""
        for start in range(0, len(chosen), _CHUNK):
            part = slice(start, min(start + _CHUNK, len(chosen)))
            self._fetch_corners(self._pictures[chosen[part]])
            self._find_sources(Placement(*(values[part] for values in placed)))
            self._blend(out[part].reshape(-1, PLACED, PLACED))

    def _fetch_corners(self, pictures: NDArray[np.uint8]) -> None:
        """Beside each pixel the one to its right, the one below, and the one below right."""
        pictures = pictures.reshape(-1, SIDE, SIDE)
        corners = self._corners[: len(pictures)]
        corners[:, 1:-1, 1:-1, 0] = pictures
        corners[:, 1:-1, :-2, 1] = pictures
        corners[:, :-2, 1:-1, 2] = pictures
        corners[:, :-2, :-2, 3] = pictures

    def _find_sources(self, placed: Placement) -> None:
        """For each pixel of the result where in the original it comes from."""
        count = len(placed.turn)
        x, y, down, where = self._x[:count], self._y[:count], self._down[:count], self._where[:count]
        turn, size, *shift = (values[:, None] for values in placed)
        cosine, sine = np.cos(turn) / size, np.sin(turn) / size
        right, below = (np.arange(PLACED) - (PLACED - 1) / 2 - by for by in shift)
        middle = (_PADDED - 1) / 2
        np.add(_fixed(cosine * right + middle)[:, None, :], _fixed(sine * below)[:, :, None], out=x)
        np.add(_fixed(middle - sine * right)[:, None, :], _fixed(cosine * below)[:, :, None], out=y)
        for axis in (x, y):
            np.clip(axis, 0, (_PADDED - 1) * _ONE, out=axis)
        np.bitwise_and(x, _ONE - 1, out=self._across[:count].view(np.int32))
        np.bitwise_and(y, _ONE - 1, out=down)
        x >>= _FRACTION
        y >>= _FRACTION
        y *= _PADDED
        y += x
        np.add(y, self._first[:count], out=where)

    def _blend(self, out: NDArray[np.float32]) -> None:
        count = len(out)
        left, right, across = self._left[:count], self._right[:count], self._across[:count]
        np.take(self._corners.view("<u4").reshape(-1), self._where[:count], out=right, mode="clip")
        # Byte by byte a word is: here, right of it, below, below right. Two 16-bit lanes take the left pair and two
        # the right; a lane of left * (256 - across) + right * across never overflows.
        np.bitwise_and(right, _TWO_BYTES, out=left)
        right >>= np.uint32(8)
        right &= _TWO_BYTES
        right -= left
        right *= across
        left <<= np.uint32(8)
        right += left
        np.bitwise_and(right, _LOW_HALF, out=left)
        right >>= np.uint32(16)
        above, below = left.view(np.int32), right.view(np.int32)
        below -= above
        below *= self._down[:count]
        above <<= 8
        above += below
        np.multiply(above, _SCALE, out=out, casting="same_kind", dtype=np.float32)


def _fixed(coordinates: Floats) -> NDArray[np.int32]:
    return np.rint(coordinates * _ONE).astype(np.int32)
