"""Synthetic coloured pictures, a substitute for CIFAR-10: ten patterns, each with a typical colour, and noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 32
_CLASSES = 10
_MARGIN = 4
"""By how many pixels a pattern may be shifted in each direction."""
_CANVAS = SIDE + 2 * _MARGIN
_VARIANTS = 100
"""Variants of each pattern; an example is one of them, shifted, coloured and with noise."""
_CHUNK = 1_000
"""Pictures that are processed at once: few enough that they stay in the CPU cache."""
_NOISE = 48
"""The noise adds fewer than this many of 256 levels."""
_CLASS_COLOUR_SHARE = 0.3
"""The share of the class's own colour in a colour; the rest is random."""

Floats = NDArray[Any]


def draw(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images [count, 32, 32, 3] and labels, which depend on the seed only; the classes are as balanced as possible."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count, dtype=np.int64) % _CLASSES)
    masks = np.concatenate([_variants(pattern, rng) for pattern in range(_CLASSES)])
    windows = np.lib.stride_tricks.sliding_window_view(masks, (SIDE, SIDE), axis=(1, 2))
    variant = labels * _VARIANTS + rng.integers(_VARIANTS, size=count)
    shift = rng.integers(2 * _MARGIN + 1, size=(2, count))
    images = np.empty((count, SIDE, SIDE, 3), dtype=np.uint8)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        images[part] = _paint(windows[variant[part], shift[0, part], shift[1, part]], labels[part], rng)
    return images, labels.astype(np.uint8)


def _paint(mask: NDArray[np.uint8], labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Colour pattern and background, and add noise."""
    size = (len(mask), 3)
    pattern = _CLASS_COLOUR_SHARE * _COLOURS[labels] + (1 - _CLASS_COLOUR_SHARE) * rng.integers(256, size=size)
    background = _CLASS_COLOUR_SHARE * _COLOURS[labels - 1] + (1 - _CLASS_COLOUR_SHARE) * rng.integers(256, size=size)
    pattern, background = (colour.astype(np.uint16)[:, None, None, :] for colour in (pattern, background))
    cover = mask[..., None].astype(np.uint16)
    painted = pattern * cover + background * (255 - cover)  # At most 255 x 255, which fits into 16 bits.
    painted >>= 8
    noise = rng.integers(_NOISE, size=painted.shape, dtype=np.uint8)
    painted = painted * (256 - _NOISE) >> 8
    painted += noise
    return painted.astype(np.uint8)


def _variants(pattern: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One pattern in many sizes: [_VARIANTS, _CANVAS, _CANVAS], 255 inside of the pattern and 0 outside."""
    axis = np.arange(_CANVAS, dtype=np.float32) - np.float32((_CANVAS - 1) / 2)
    radius = rng.uniform(7, 12, (_VARIANTS, 1, 1)).astype(np.float32)
    shear = rng.normal(0, 0.15, (_VARIANTS, 1, 1)).astype(np.float32)
    x = (axis[None, None, :] + shear * axis[None, :, None]) / radius
    y = (axis[None, :, None] - shear * axis[None, None, :]) / radius
    covered: NDArray[np.uint8] = np.clip((_PATTERNS[pattern](x, y) * radius + 0.5) * 255, 0, 255).astype(np.uint8)
    return covered


def _waves(along: Floats) -> Floats:
    wave: Floats = np.sin(along * np.float32(2 * np.pi)) / np.float32(2 * np.pi)
    return wave


# Each function is positive inside of the pattern, and about the distance to its edge; the size of a pattern is 1.
_PATTERNS: tuple[Callable[[Floats, Floats], Floats], ...] = (
    lambda x, y: 1 - np.hypot(x, y),
    lambda x, y: 1 - np.maximum(np.abs(x), np.abs(y)),
    lambda x, y: np.minimum(1 - np.abs(x) - y / 2 - 0.5, y + 1),
    lambda x, y: 0.3 - np.abs(np.hypot(x, y) - 0.8),
    lambda x, y: 0.3 - np.minimum(np.abs(x), np.abs(y)),
    lambda x, y: _waves(x),
    lambda x, y: _waves(y),
    lambda x, y: _waves(x + y),
    lambda x, y: _waves(x - y),
    lambda x, y: _waves(x) * _waves(y) * 6,
)
_COLOURS = np.random.default_rng(0).integers(256, size=(_CLASSES, 3)).astype(np.float32)
