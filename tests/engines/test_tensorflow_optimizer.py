"""The optimizers of the tensorflow engine beside those of the parameter server, with the same gradients."""

import numpy as np
import pytest

from paceline.spec.schedule import Schedule
from paceline.train.block_optimizer import BlockOptimizer, clip_vector, sections_of
from paceline.workloads.parameters import ParameterShape, views
from support.optimizers import TEXTS, optimizer

tf = pytest.importorskip("tensorflow")
SHAPES = (ParameterShape("0.weight", (20,)), ParameterShape("0.bias", (3,)))
SIZE = 23
STEPS = 8
GRADIENTS = np.random.default_rng(3).standard_normal((STEPS, SIZE)).astype(np.float32)


@pytest.mark.parametrize("text", TEXTS)
def test_dense_updates_are_those_of_the_parameter_server(text: str) -> None:
    from paceline.engines.tensorflow.optimizer import Updater

    rule = optimizer(text, schedule="cosine:warmup=3:updates=6", clip=3.0, param_groups="*bias:lr_scale=2")
    variables = [tf.Variable(tf.ones(shape.shape)) for shape in SHAPES]
    slots = {name: [tf.Variable(tf.zeros(shape.shape)) for shape in SHAPES] for name in rule.state_names}
    updater = Updater(rule, SHAPES, variables, slots)
    expected = np.ones(SIZE, np.float32)
    block = BlockOptimizer(expected, rule, sections=sections_of(rule, SHAPES))
    for number, gradient in enumerate(GRADIENTS):
        updater.apply_all([tf.constant(part) for part in views(gradient, SHAPES).values()], tf.constant(number))
        clipped = gradient.copy()
        assert rule.clip
        clip_vector(clipped, rule.clip)
        block.step(slice(0, SIZE), [clipped], number)
    actual = np.concatenate([variable.numpy().reshape(-1) for variable in variables])
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)
    for name in rule.state_names:
        stored = np.concatenate([slot.numpy().reshape(-1) for slot in slots[name]])
        np.testing.assert_allclose(stored, block.state[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("text", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_updates_of_rows_are_those_of_the_parameter_server(text: str, clip: float | None) -> None:
    from paceline.engines.tensorflow.optimizer import Updater

    rule, shapes = optimizer(text, clip=clip), (ParameterShape("weight", (SIZE,)),)
    variables = [tf.Variable(tf.ones([SIZE]))]
    slots = {name: [tf.Variable(tf.zeros([SIZE]))] for name in rule.state_names}
    updater, expected = Updater(rule, shapes, variables, slots), np.ones(SIZE, np.float32)
    block = BlockOptimizer(expected, rule)
    for number, gradient in enumerate(GRADIENTS):
        rows = np.random.default_rng(number).integers(0, SIZE, 9)
        updater.apply_all([tf.IndexedSlices(tf.constant(gradient[:9]), tf.constant(rows))], tf.constant(number))
        block.step_rows([(rows, gradient[:9])], number)
    np.testing.assert_allclose(variables[0].numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "text",
    [
        "constant:warmup=5",
        "step:every=4:factor=0.3:warmup=2",
        "cosine:updates=20:floor=0.1",
        "linear:updates=9:warmup=3",
    ],
)
def test_the_schedule_as_ops_is_the_schedule(text: str) -> None:
    from paceline.engines.tensorflow.optimizer import schedule_factor

    schedule = Schedule.parse(text)
    updates = np.arange(40)
    expected = [schedule.at(int(update)) for update in updates]
    actual = [float(schedule_factor(schedule, tf.constant(update))) for update in updates]
    assert actual == pytest.approx(expected, abs=1e-12)
