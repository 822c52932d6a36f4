"""A workload with slow reading of examples and a tiny model.

The environment variable READER selects the delay: `steady` at each batch, `random` at some batches.
"""

import os
import time
from collections.abc import Iterator

import numpy as np

from paceline import Model, Share, Workload
from paceline.layers import Dense

EXAMPLES = 200_000
STEADY_DELAY_S = 0.01
RANDOM_DELAY_S, DELAY_PROBABILITY = 0.08, 0.12


def train(share: Share) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng([share.seed, share.index])
    x, y = np.zeros((share.batch, 20), np.float32), np.zeros(share.batch, np.int64)
    for _ in range(EXAMPLES // share.batch // share.workers):
        _delay(random)
        yield x, y


def _delay(random: np.random.Generator) -> None:
    match os.environ.get("READER", "steady"):
        case "steady":
            time.sleep(STEADY_DELAY_S)
        case "random":
            if random.random() < DELAY_PROBABILITY:
                time.sleep(RANDOM_DELAY_S)


def test() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.zeros((10, 20), np.float32), np.zeros(10, np.int64)


WORKLOAD = Workload(
    name="slow-reader",
    summary="examples that are slow to read",
    model=Model(inputs=(20,), layers=(Dense(2),)),
    train=train,
    test=test,
    train_examples=EXAMPLES,
    lr=0.1,
)
