"""More training images than a data set has: further ones are shifted copies, drawn from their number.

Example n of a set of N images with n >= N is image n modulo N, shifted by up to two pixels in each direction. The
shift depends on n alone, so it is the same in every run, for any engine and any number of workers.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.data.hashing import as_uint16, make_key, random_bits

MOST_COPIES = 10
"""The largest training set, in multiples of the stored one."""
MAX_SHIFT = 2
"""Pixels."""
_KEY = make_key(0xA06)


def shift_copies(rows: NDArray[np.uint8], examples: NDArray[np.integer], stored: int) -> None:
    """Shift, in place, the square images in `rows` whose number is beyond the stored examples."""
    (places,) = np.nonzero(examples >= stored)
    if not len(places):
        return
    side = int(np.sqrt(rows.shape[1]))
    words = as_uint16(random_bits(_KEY, examples[places])).reshape(len(places), -1)
    shifts = (words[:, :2] % (2 * MAX_SHIFT + 1)).astype(int) - MAX_SHIFT
    for place, (right, down) in zip(places.tolist(), shifts.tolist(), strict=True):
        image = rows[place].reshape(side, side)
        shifted = np.zeros_like(image)
        shifted[max(0, down) : side + min(0, down), max(0, right) : side + min(0, right)] = image[
            max(0, -down) : side + min(0, -down), max(0, -right) : side + min(0, -right)
        ]
        image[...] = shifted
