"""Your own workload with a model of Paceline's layers, which runs on every engine.

paceline run examples/two_moons.py --engine torch,tensorflow --strategy ps-async --layout cluster2
"""

from collections.abc import Iterator

import numpy as np

from paceline import Model, Share, Workload
from paceline.layers import Dense, Relu

EXAMPLES = 60_000


def moons(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two interleaved half circles, and the number of the half circle each is from."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    angle = random.uniform(0, np.pi, count)
    x = np.where(labels == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(labels == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + random.normal(0, 0.1, (count, 2))
    return points.astype(np.float32), labels


def train(share: Share) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches of one worker in one epoch: every `workers`-th batch, starting with number `index`."""
    points, labels = moons(share.seed, EXAMPLES)
    for start in range(share.index * share.batch, EXAMPLES - share.batch + 1, share.workers * share.batch):
        batch = slice(start, start + share.batch)
        yield points[batch], labels[batch]


def test() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield moons(0, 2_000)


WORKLOAD = Workload(
    name="two-moons",
    summary="a small network that separates two half circles",
    model=Model((2,), (Dense(32), Relu(), Dense(32), Relu(), Dense(2))),
    train=train,
    test=test,
    train_examples=EXAMPLES,
    lr=0.5,
)
