"""Which examples a worker takes at which step: one order for all engines and strategies.

An epoch is a permutation of the training set drawn from the seed. It is cut into global batches of
workers x batch examples, and worker i takes the i-th part of each. So n workers with batch b see, in
one round, exactly what a single worker with batch n*b sees in one step.
"""

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


def epoch_order(examples: int, *, batch: int, workers: int, index: int, seed: int, epoch: int) -> NDArray[np.intp]:
    """Row s is what worker `index` takes at step s of the epoch."""
    order = np.random.default_rng([seed, epoch]).permutation(examples)
    steps = examples // (batch * workers)
    return np.ascontiguousarray(order[: steps * batch * workers].reshape(steps, workers, batch)[:, index])


class Batches:
    """Batches of one worker. The arrays handed out are overwritten by the next call."""

    def __init__(
        self, x: NDArray[np.uint8], y: Labels, *, scale: float, batch: int, workers: int, index: int, seed: int
    ) -> None:
        self._x, self._y, self._scale = x, y, np.float32(scale)
        self._order_of = {"batch": batch, "workers": workers, "index": index, "seed": seed}
        self._epoch = -1
        self._order = np.empty((0, batch), np.intp)
        self._raw = np.empty((batch, x.shape[1]), np.uint8)
        self._images = np.empty((batch, x.shape[1]), np.float32)
        self._labels = np.empty(batch, np.int64)
        self.steps_per_epoch = len(x) // (batch * workers)

    def at(self, step: int) -> tuple[Images, Labels]:
        epoch, row = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = epoch_order(len(self._x), **self._order_of, epoch=epoch)
            self._epoch = epoch
        chosen = self._order[row]
        # mode="clip" lets take() write straight into `out`; the indices are in range by construction.
        np.take(self._x, chosen, axis=0, out=self._raw, mode="clip")
        np.multiply(self._raw, self._scale, out=self._images)
        np.take(self._y, chosen, out=self._labels, mode="clip")
        return self._images, self._labels
