"""Synthetic digits, a substitute for MNIST: strokes with random points, slant, thickness, shift and noise."""

import numpy as np
from numpy.typing import NDArray

SIDE = 28
_MARGIN = 2
"""By how many pixels a glyph may be shifted in each direction."""
_CANVAS = SIDE + 2 * _MARGIN
_GLYPHS = 200
"""Glyphs of each digit, drawn with random parameters; an example is one of them, shifted and with noise."""
_CHUNK = 5_000
"""Images that are processed at once: few enough that they stay in the CPU cache."""
_SPECKS = 6
"""Of 256 pixels, this many are specks on average."""

Points = NDArray[np.float32]


def draw(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images [count, 28, 28] and labels, which depend on the seed only; the classes are as balanced as possible."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count, dtype=np.int64) % 10)
    glyphs = np.concatenate([_draw_glyphs(strokes, rng) for strokes in _STROKES])
    windows = np.lib.stride_tricks.sliding_window_view(glyphs, (SIDE, SIDE), axis=(1, 2))
    glyph = labels * _GLYPHS + rng.integers(_GLYPHS, size=count)
    shift = rng.integers(2 * _MARGIN + 1, size=(2, count))
    images = np.empty((count, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        images[part] = _add_noise(windows[glyph[part], shift[0, part], shift[1, part]], rng)
    return images, labels.astype(np.uint8)


def _add_noise(clean: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Multiply each image with a random ink strength, and add specks."""
    ink = rng.integers(140, 256, size=(len(clean), 1, 1), dtype=np.uint16)
    uniform = rng.integers(0, 256, size=clean.shape, dtype=np.uint8)
    specks = np.where(uniform < _SPECKS, np.uint16(120), np.uint16(0))
    noisy: NDArray[np.uint8] = np.minimum((clean * ink >> 8) + specks, 255).astype(np.uint8)
    return noisy


def _draw_glyphs(strokes: list[Points], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Random variants of one digit: [_GLYPHS, _CANVAS, _CANVAS]."""
    size = rng.uniform(6.0, 9.5, (_GLYPHS, 1, 2)).astype(np.float32) * np.array([0.75, 1.1], np.float32)
    slant = rng.normal(0.1, 0.3, (_GLYPHS, 1)).astype(np.float32)
    thickness = rng.uniform(0.9, 2.0, (_GLYPHS, 1, 1)).astype(np.float32)
    distance = np.full((_GLYPHS, _CANVAS, _CANVAS), np.inf, dtype=np.float32)
    for stroke in strokes:
        points = stroke + rng.normal(0, 0.1, (_GLYPHS, *stroke.shape)).astype(np.float32)
        points[..., 0] -= slant * points[..., 1]
        points = points * size + np.float32((_CANVAS - 1) / 2)
        for start, end in zip(range(len(stroke) - 1), range(1, len(stroke)), strict=True):
            np.minimum(distance, _distance(points[:, start], points[:, end]), out=distance)
    ink: NDArray[np.uint8] = (np.clip(thickness - distance + 0.5, 0, 1) * 255).astype(np.uint8)
    return ink


def _distance(start: Points, end: Points) -> Points:
    """The distance of each pixel of the canvas from a line segment, for many segments at once."""
    axis = np.arange(_CANVAS, dtype=np.float32)
    x, y = axis[None, None, :] - start[:, 0, None, None], axis[None, :, None] - start[:, 1, None, None]
    dx, dy = ((end - start)[:, i, None, None] for i in (0, 1))
    along = np.clip((x * dx + y * dy) / (dx * dx + dy * dy + np.float32(1e-6)), 0, 1)
    distance: Points = np.hypot(x - along * dx, y - along * dy)
    return distance


def _line(*points: tuple[float, float]) -> Points:
    return np.array(points, dtype=np.float32)


def _arc(x: float, y: float, width: float, height: float, start: float, end: float) -> Points:
    """Part of an ellipse around (x, y); angles are fractions of a full circle, clockwise from the right."""
    angle = 2 * np.pi * np.linspace(start, end, 9)
    return np.stack([x + width * np.cos(angle), y + height * np.sin(angle)], axis=1).astype(np.float32)


# The strokes of the digits 0 to 9: x to the right, y down, both from -1 to 1.
_STROKES: list[list[Points]] = [
    [_arc(0, 0, 0.8, 1, 0, 1)],
    [_line((-0.4, -0.6), (0.1, -1), (0.1, 1))],
    [_arc(0, -0.45, 0.75, 0.55, 0.5, 1.1), _line((0.6, -0.1), (-0.8, 1), (0.8, 1))],
    [_arc(0, -0.5, 0.7, 0.5, 0.55, 1.25), _arc(0, 0.5, 0.75, 0.5, 0.75, 1.45)],
    [_line((0.3, -1), (-0.8, 0.3), (0.8, 0.3)), _line((0.4, -0.3), (0.4, 1))],
    [_line((0.7, -1), (-0.6, -1), (-0.65, -0.1)), _arc(0, 0.4, 0.75, 0.6, 0.65, 1.4)],
    [_line((0.4, -1), (-0.5, -0.1), (-0.7, 0.4)), _arc(0, 0.5, 0.7, 0.5, 0, 1)],
    [_line((-0.8, -1), (0.8, -1), (-0.1, 1))],
    [_arc(0, -0.5, 0.6, 0.5, 0, 1), _arc(0, 0.5, 0.75, 0.5, 0, 1)],
    [_arc(0, -0.45, 0.65, 0.55, 0, 1), _line((0.65, -0.45), (0.5, 0.4), (0.1, 1))],
]
