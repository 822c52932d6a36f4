"""Rotates, scales and shifts small grey pictures, many at once: bilinear interpolation in fixed-point arithmetic.

Integers make it fast, because the four neighbouring pixels needed for an output pixel are one 32-bit word, which is
read once and of which two bytes are interpolated at a time. They also make the result the same on every machine.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INPUT_SIDE = 28
OUTPUT_SIDE = 40
"""Width and height of the pictures, in pixels."""

_MARGIN = 1
"""A border of black pixels; coordinates outside of the picture are clipped to it."""
_PADDED = INPUT_SIDE + 2 * _MARGIN
_FRACTION_BITS = 8
_ONE = 1 << _FRACTION_BITS
"""One pixel in fixed-point coordinates."""
_CHUNK = 50
"""Pictures that are processed at once: few enough that their arrays stay in the CPU cache."""
_TWO_BYTES = np.uint32(0x00FF_00FF)
_LOW_HALF = np.uint32(0x0000_FFFF)
_SCALE = np.float32(1 / 255 / _ONE / _ONE)

Floats = NDArray[np.float64]


class Placement(NamedTuple):
    """How pictures are placed in the output; each array has one entry per picture."""

    turn: Floats
    """Rotation in radians."""
    size: Floats
    """Scale factor; 1 keeps the size."""
    right: Floats
    """Shift of the centre to the right, in pixels."""
    down: Floats
    """Shift of the centre downwards, in pixels."""


class Warp:
    """The input pictures, and work arrays that are reused for every call."""

    def __init__(self, pictures: NDArray[np.uint8]) -> None:
        """`pictures` has the shape [pictures, 28 x 28]."""
        self._pictures = pictures
        self._corners = np.zeros((_CHUNK, _PADDED, _PADDED, 4), np.uint8)
        self._first = np.arange(_CHUNK, dtype=np.int32)[:, None, None] * np.int32(_PADDED * _PADDED)
        shape = (_CHUNK, OUTPUT_SIDE, OUTPUT_SIDE)
        self._x, self._y, self._fraction_y = (np.empty(shape, np.int32) for _ in range(3))
        self._sources = np.empty(shape, np.intp)
        self._left, self._right, self._fraction_x = (np.empty(shape, np.uint32) for _ in range(3))

    def __call__(self, indices: NDArray[np.integer], placement: Placement, out: NDArray[np.float32]) -> None:
        """Write the pictures with these indices to `out`, as rows of 40 x 40 floats from 0 to 1."""
        for start in range(0, len(indices), _CHUNK):
            part = slice(start, min(start + _CHUNK, len(indices)))
            self._fill_corners(self._pictures[indices[part]])
            self._find_sources(Placement(*(values[part] for values in placement)))
            self._interpolate(out[part].reshape(-1, OUTPUT_SIDE, OUTPUT_SIDE))

    def _fill_corners(self, pictures: NDArray[np.uint8]) -> None:
        """Store with each pixel the pixel to its right, the one below, and the one below right."""
        pictures = pictures.reshape(-1, INPUT_SIDE, INPUT_SIDE)
        corners = self._corners[: len(pictures)]
        corners[:, 1:-1, 1:-1, 0] = pictures
        corners[:, 1:-1, :-2, 1] = pictures
        corners[:, :-2, 1:-1, 2] = pictures
        corners[:, :-2, :-2, 3] = pictures

    def _find_sources(self, placement: Placement) -> None:
        """For each output pixel, find the input pixel it comes from (`_sources`) and the position within that pixel."""
        count = len(placement.turn)
        x, y, sources = self._x[:count], self._y[:count], self._sources[:count]
        turn, size, *shifts = (values[:, None] for values in placement)
        cosine, sine = np.cos(turn) / size, np.sin(turn) / size
        right, below = (np.arange(OUTPUT_SIDE) - (OUTPUT_SIDE - 1) / 2 - shift for shift in shifts)
        middle = (_PADDED - 1) / 2
        np.add(_fixed(cosine * right + middle)[:, None, :], _fixed(sine * below)[:, :, None], out=x)
        np.add(_fixed(middle - sine * right)[:, None, :], _fixed(cosine * below)[:, :, None], out=y)
        for axis in (x, y):
            np.clip(axis, 0, (_PADDED - 1) * _ONE, out=axis)
        np.bitwise_and(x, _ONE - 1, out=self._fraction_x[:count].view(np.int32))
        np.bitwise_and(y, _ONE - 1, out=self._fraction_y[:count])
        x >>= _FRACTION_BITS
        y >>= _FRACTION_BITS
        y *= _PADDED
        y += x
        np.add(y, self._first[:count], out=sources)

    def _interpolate(self, out: NDArray[np.float32]) -> None:
        count = len(out)
        left, right, fraction_x = self._left[:count], self._right[:count], self._fraction_x[:count]
        np.take(self._corners.view("<u4").reshape(-1), self._sources[:count], out=right, mode="clip")
        # The bytes of a word are: this pixel, right of it, below it, below right. The left column of two pixels goes
        # into two 16-bit lanes of one word, the right column into those of another; interpolating along x computes left
        # * (256 - fraction) + right * fraction in each lane, which never overflows 16 bits.
        np.bitwise_and(right, _TWO_BYTES, out=left)
        right >>= np.uint32(8)
        right &= _TWO_BYTES
        right -= left
        right *= fraction_x
        left <<= np.uint32(8)
        right += left
        np.bitwise_and(right, _LOW_HALF, out=left)
        right >>= np.uint32(16)
        above, below = left.view(np.int32), right.view(np.int32)
        below -= above
        below *= self._fraction_y[:count]
        above <<= 8
        above += below
        np.multiply(above, _SCALE, out=out, casting="same_kind", dtype=np.float32)


def _fixed(coordinates: Floats) -> NDArray[np.int32]:
    return np.rint(coordinates * _ONE).astype(np.int32)
