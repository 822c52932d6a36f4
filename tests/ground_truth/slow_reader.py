"""A workload whose examples take their time: READER says how. The model is nothing to speak of."""

import os
import time
from collections.abc import Iterator

import numpy as np

from paceline import Model, Share, Workload
from paceline.layers import Dense

EXAMPLES = 200_000
STEADY_S = 0.01
NOW_AND_THEN_S, HOW_OFTEN = 0.08, 0.12


def train(share: Share) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    luck = np.random.default_rng([share.seed, share.index])
    x, y = np.zeros((share.batch, 20), np.float32), np.zeros(share.batch, np.int64)
    for _ in range(EXAMPLES // share.batch // share.workers):
        _take_time(luck)
        yield x, y


def _take_time(luck: np.random.Generator) -> None:
    match os.environ.get("READER", "steady"):
        case "steady":
            time.sleep(STEADY_S)
        case "now and then":
            if luck.random() < HOW_OFTEN:
                time.sleep(NOW_AND_THEN_S)


def test() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.zeros((10, 20), np.float32), np.zeros(10, np.int64)


WORKLOAD = Workload(
    name="slow-reader",
    summary="examples that take their time",
    model=Model(inputs=(20,), layers=(Dense(2),)),
    train=train,
    test=test,
    train_examples=EXAMPLES,
    lr=0.1,
)
