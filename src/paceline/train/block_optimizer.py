"""Applies an optimizer to a flat vector of parameters with NumPy, block by block so that a block stays in the cache.

Parameter servers, the driver of Spark and workers of sparse models use it. It needs no ML framework.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from paceline.data.batches import Array
from paceline.spec.optimizer import GroupSettings, Optimizer
from paceline.train.update_rules import Numbers, rule_of
from paceline.workloads.parameters import ParameterShape, Vector

Rows = tuple[Array, Vector]
"""Indices, and the gradients of the values at these indices."""
Blocks = list[tuple[slice, slice, GroupSettings]]
"""Each as its slice of all values, its slice of the part, and its settings."""
_BLOCK_VALUES = 64 * 1024
"""Values per block: 256 KiB of each vector, so that the vectors of a block fit into a core's cache together."""
_CLIP_MARGIN = 1e-6
"""Added to a norm before dividing by it, as torch does."""


class Section(msgspec.Struct, frozen=True):
    """A part of the vector whose values have the same settings."""

    start: int
    stop: int
    settings: GroupSettings


def sections_of(optimizer: Optimizer, shapes: Sequence[ParameterShape], part: slice | None = None) -> list[Section]:
    """The sections of a vector with these parameters, or of a part of it; positions count from the start of the part.

    SpecError if a group of the optimizer has no parameter.
    """
    optimizer.check_groups([shape.name for shape in shapes])
    first, last = (part.start, part.stop) if part else (0, sum(shape.size for shape in shapes))
    sections: list[Section] = []
    offset = 0
    for shape in shapes:
        start, stop = max(first, offset), min(last, offset + shape.size)
        offset += shape.size
        settings = optimizer.settings_for(shape.name)
        if start >= stop:
            continue
        if sections and sections[-1].settings == settings:
            start = sections.pop().start + first
        sections.append(Section(start - first, stop - first, settings))
    return sections


class BlockOptimizer:
    """Updates `values` in place. Every method takes the number of updates that were made before.

    `accumulates` says that gradients come one by one through `accumulate` and `apply_accumulated`.
    """

    def __init__(
        self,
        values: Vector,
        optimizer: Optimizer,
        *,
        sections: Sequence[Section] | None = None,
        state: Mapping[str, Vector] | None = None,
        accumulates: bool = False,
    ) -> None:
        self.optimizer, self._values = optimizer, values
        self._sections = tuple(sections or [Section(0, values.size, optimizer.settings_for(""))])
        old = state or {}
        self.state = {name: old[name] if name in old else np.zeros_like(values) for name in optimizer.state_names}
        """By name, the vectors that the optimizer stores."""
        self._vectors: tuple[Vector, ...] = tuple(self.state.values())
        self._snapshot: dict[str, Vector] | None = None
        self._rule = rule_of(optimizer)
        self._cut_parts: dict[tuple[int, int], Blocks] = {}
        """The blocks of each part: for a small model, cutting would take as long as the step itself."""
        self._is_plain = optimizer.is_plain_sgd
        stays_the_same = optimizer.has_constant_rate and not optimizer.corrects_bias
        self._constant_numbers = Numbers.of(optimizer, 0) if stays_the_same else None
        self._lr = np.float32(optimizer.lr)
        self._mean, self._scratch = np.empty((2, min(_BLOCK_VALUES, values.size)), np.float32)
        self._sum: Vector | None = None
        self._adds_to_velocity = False
        if accumulates:
            self._adds_to_velocity = optimizer.kind == "momentum" and not optimizer.clip and not self._decays
            self._sum = self._vectors[0] if self._adds_to_velocity else np.zeros_like(values)

    @property
    def _decays(self) -> bool:
        return any(section.settings.weight_decay for section in self._sections)

    def step(self, part: slice, gradients: Sequence[Vector], update: int, scale: float = 1.0) -> None:
        """Apply the mean of the gradients, times `scale`, to a part of the values; they are summed in the order given.

        `update` is the number of updates made before.
        """
        weight = np.float32(scale / len(gradients))
        if self._is_plain:
            rate = self._lr * weight
            for block, in_part, _ in self._blocks(part):
                total = self._total([gradient[in_part] for gradient in gradients])
                values = self._values[block]
                values -= np.multiply(total, rate, out=self._mean[: total.size])
            return
        numbers = self._numbers(update)
        for block, in_part, settings in self._blocks(part):
            total = self._total([gradient[in_part] for gradient in gradients])
            mean = np.multiply(total, weight, out=self._mean[: total.size])
            self._apply(block, mean, settings, numbers)

    def squared_norm(self, part: slice, gradients: Sequence[Vector]) -> float:
        """The sum of the squares of the mean of the gradients of a part."""
        squares = 0.0
        for _, in_part, _ in self._blocks(part):
            total = self._total([gradient[in_part] for gradient in gradients])
            squares += float(np.dot(total, total))
        return squares / len(gradients) ** 2

    def accumulate(self, part: slice, gradient: Vector, *, is_first: bool, count: int) -> None:
        """Add one of `count` gradients of an update to their sum. With momentum alone, the velocity is that sum: no
        separate one is stored."""
        assert self._sum is not None
        weight = np.float32(1 / count)
        for block, in_part, _ in self._blocks(part):
            total = self._sum[block]
            if self._adds_to_velocity or not is_first:
                if is_first:
                    total *= np.float32(self.optimizer.momentum)
                total += np.multiply(gradient[in_part], weight, out=self._scratch[: total.size])
            else:
                np.multiply(gradient[in_part], weight, out=total)

    def apply_accumulated(self, part: slice, update: int, scale: float = 1.0) -> None:
        """Apply the accumulated gradients, after the last one of the update was added."""
        assert self._sum is not None
        if not self._adds_to_velocity:
            self.step(part, [self._sum[part]], update, scale)
            return
        rate = self.optimizer.lr_at(update)
        for block, _, settings in self._blocks(part):
            values, change = self._values[block], self._scratch[: block.stop - block.start]
            values -= np.multiply(self._sum[block], np.float32(rate * settings.lr_scale), out=change)

    def accumulated_squared_norm(self, part: slice) -> float:
        """The sum of the squares of the accumulated mean gradient of a part."""
        assert self._sum is not None
        return float(np.dot(self._sum[part], self._sum[part]))

    def squared_norm_of_rows(self, gradients: Sequence[Rows]) -> float:
        """The sum of the squares of the mean of sparse gradients."""
        _, mean = _mean_of_rows(gradients)
        return float(np.dot(mean, mean))

    def step_rows(self, gradients: Sequence[Rows], update: int, scale: float | None = None) -> None:
        """Apply the mean of sparse gradients, times `scale`; an index may occur several times in one of them.

        Without a scale, the mean is clipped by its own norm if the optimizer clips.

        Only the rows that occur change, with what the optimizer stores for them: the means of adam do not decay while a
        row does not occur.
        """
        if self._is_plain and (scale is not None or not self.optimizer.clip):
            rate = self._lr * np.float32((1.0 if scale is None else scale) / len(gradients))
            for indices, gradient in gradients:
                np.subtract.at(self._values, indices, gradient * rate)
            return
        rows, mean = _mean_of_rows(gradients)
        if scale is None and self.optimizer.clip:
            scale = clip_scale(self.optimizer.clip, float(np.dot(mean, mean)))
        mean *= np.float32(1.0 if scale is None else scale)
        numbers, scratch = self._numbers(update), np.empty_like(mean)
        for section in self._sections:
            inside = slice(*np.searchsorted(rows, (section.start, section.stop)))
            own = rows[inside]
            values, state = self._values[own], [vector[own] for vector in self._vectors]
            self._rule(numbers, section.settings, values, state, mean[inside], scratch[inside])
            self._values[own] = values
            for vector, changed in zip(self._vectors, state, strict=True):
                vector[own] = changed

    def snapshot_state(self) -> None:
        """Copy the state as it is now: gradients of the next update may be accumulated before it is requested."""
        self._snapshot = {name: vector.copy() for name, vector in self.state.items()}

    def drop_snapshot(self) -> None:
        self._snapshot = None

    def state_of(self, part: slice) -> list[Vector]:
        """A part of each vector of the state: of the snapshot if there is one, else as it is now."""
        return [vector[part] for vector in (self._snapshot or self.state).values()]

    def _numbers(self, update: int) -> Numbers:
        return self._constant_numbers or Numbers.of(self.optimizer, update)

    def _apply(self, block: slice, gradient: Vector, settings: GroupSettings, numbers: Numbers) -> None:
        state = [vector[block] for vector in self._vectors]
        self._rule(numbers, settings, self._values[block], state, gradient, self._scratch[: gradient.size])

    def _total(self, gradients: Sequence[Vector]) -> Vector:
        total = gradients[0]
        for gradient in gradients[1:]:
            total = np.add(total, gradient, out=self._scratch[: gradient.size])
        return total

    def _blocks(self, part: slice) -> Blocks:
        bounds = (part.start, part.stop)
        if bounds not in self._cut_parts:
            self._cut_parts[bounds] = _cut_blocks(self._sections, *bounds)
        return self._cut_parts[bounds]


def _mean_of_rows(gradients: Sequence[Rows]) -> Rows:
    """The indices that occur, each once and in order, and the mean of the gradients there."""
    rows, inverse = np.unique(np.concatenate([indices for indices, _ in gradients]), return_inverse=True)
    flat = np.concatenate([gradient for _, gradient in gradients])
    return rows, (np.bincount(inverse, flat, rows.size) / len(gradients)).astype(np.float32)


def clip_scale(clip: float, squared_norm: float) -> float:
    """The factor that reduces a gradient to the norm `clip` if it has a larger one."""
    return min(1.0, clip / (math.sqrt(squared_norm) + _CLIP_MARGIN))


def clip_vector(gradient: Vector, clip: float) -> None:
    """Scale a gradient down to the norm `clip`, in place, if it has a larger one."""
    scale = clip_scale(clip, float(np.dot(gradient, gradient)))
    if scale < 1:
        gradient *= np.float32(scale)


def _cut_blocks(sections: Sequence[Section], first: int, last: int) -> Blocks:
    blocks = []
    for section in sections:
        stop = min(last, section.stop)
        for start in range(max(first, section.start), stop, _BLOCK_VALUES):
            end = min(start + _BLOCK_VALUES, stop)
            blocks.append((slice(start, end), slice(start - first, end - first), section.settings))
    return blocks
