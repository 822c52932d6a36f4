"""Compression of what tasks exchange: sizes, errors, and that error feedback loses nothing in the long run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import SpecError
from paceline.spec.compression import Compression
from paceline.train.compression import Compressor, ErrorFeedback, make_compressor
from paceline.workloads.parameters import ParameterShape

SHAPES = (
    ParameterShape("conv", (5, 5, 6, 16)),
    ParameterShape("bias", (16,)),
    ParameterShape("dense", (120, 84)),
    ParameterShape("out", (84, 10)),
)
SIZE = sum(shape.size for shape in SHAPES)
ALL = ["fp16", "int8", "topk:0.01", "topk:0.5", "powersgd:1", "powersgd:4"]


def compressor(text: str, part: slice = slice(0, SIZE)) -> Compressor:
    return make_compressor(Compression.parse(text), SHAPES, part)


def normal(size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


@pytest.mark.parametrize("text", ALL)
@given(start=st.integers(0, SIZE - 1), length=st.integers(1, SIZE), seed=st.integers(0, 9))
def test_any_part_of_the_parameters_has_a_payload_of_the_announced_size(
    text: str, start: int, length: int, seed: int
) -> None:
    part = slice(start, min(SIZE, start + length))
    made = compressor(text, part)
    vector = normal(part.stop - part.start, seed)
    before = vector.copy()
    payload = made.encode(vector)
    assert payload.nbytes == made.payload_bytes <= 4 * vector.size + 8
    decoded = made.decode(payload.tobytes())
    assert decoded.dtype == np.float32
    assert decoded.shape == vector.shape
    assert vector.tobytes() == before.tobytes()
    # No compressor makes the error larger than the vector: error feedback would not converge.
    assert np.linalg.norm(decoded - vector) <= np.linalg.norm(vector) * (1 + 1e-5)


@pytest.mark.parametrize(
    ("text", "smaller"), [("fp16", 2), ("int8", 3.9), ("topk:0.01", 49), ("powersgd:1", 30), ("powersgd:4", 7)]
)
def test_a_payload_is_that_much_smaller(text: str, smaller: float) -> None:
    assert 4 * SIZE / compressor(text).payload_bytes >= smaller


def test_values_of_full_precision_codes_are_close() -> None:
    vector = normal(SIZE)
    assert np.abs(compressor("fp16").decode(compressor("fp16").encode(vector)) - vector).max() < 2e-3
    blocks = np.abs(np.pad(vector, (0, -SIZE % 256)).reshape(-1, 256)).max(1)
    error = np.abs(compressor("int8").decode(compressor("int8").encode(vector)) - vector)
    assert (error <= np.repeat(blocks, 256)[:SIZE] / 254 * 1.001).all()


def test_topk_sends_the_largest_values_unchanged() -> None:
    vector = normal(SIZE)
    decoded = compressor("topk:0.01").decode(compressor("topk:0.01").encode(vector))
    sent = np.flatnonzero(decoded)
    assert sent.size == round(0.01 * SIZE)
    assert (decoded[sent] == vector[sent]).all()
    assert np.abs(vector[sent]).min() >= np.abs(np.delete(vector, sent)).max()


def test_powersgd_reproduces_matrices_of_low_rank() -> None:
    random = np.random.default_rng(2)
    shapes = (ParameterShape("low", (60, 50)), ParameterShape("bias", (7,)))
    matrix = (random.normal(size=(60, 3)) @ random.normal(size=(3, 50))).astype(np.float32)
    vector = np.concatenate([matrix.reshape(-1), normal(7)])
    made = make_compressor(Compression.parse("powersgd:3"), shapes, slice(0, vector.size))
    np.testing.assert_allclose(made.decode(made.encode(vector)), vector, atol=1e-3)


@pytest.mark.parametrize("text", ALL)
def test_what_was_left_out_arrives_later(text: str) -> None:
    """The sum of all decoded vectors follows the sum of all vectors: the residual does not grow."""
    feedback = ErrorFeedback(compressor(text))
    vector, decoded = normal(SIZE), np.zeros(SIZE, np.float64)
    rounds = 400
    for _ in range(rounds):
        decoded += feedback.compressor.decode(feedback.encode(vector))
    assert np.linalg.norm(decoded / rounds - vector) / np.linalg.norm(vector) < 0.25
    without = ErrorFeedback(compressor(text)).encode(vector)
    assert (
        np.linalg.norm(decoded / rounds - vector) <= np.linalg.norm(feedback.compressor.decode(without) - vector) + 1e-3
    )


@pytest.mark.parametrize("text", ALL)
def test_zeros_stay_zeros_and_values_that_are_not_finite_are_not_hidden(text: str) -> None:
    made = compressor(text)
    assert not made.decode(made.encode(np.zeros(SIZE, np.float32))).any()
    vector = normal(SIZE)
    vector[5] = np.nan
    assert not np.isfinite(made.decode(made.encode(vector))).all()
    # A vector after one of zeros is compressed as well as any other.
    assert made.decode(compressor(text).encode(normal(SIZE))).any()


def test_an_index_beyond_the_vector_is_refused() -> None:
    made = compressor("topk:0.01", slice(0, 100))
    with pytest.raises(ValueError, match="beyond the 100 values"):
        made.decode(np.array([100, 0], np.uint32).tobytes())


@pytest.mark.parametrize(
    "text", ["", "fp8", "int8:2", "topk", "topk:", "topk:0", "topk:0.6", "topk:nan", "topk:x", "powersgd:0",
             "powersgd:1.5", "powersgd:100", "powersgd:x", "zip"],
)  # fmt: skip
def test_other_values_of_the_option_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"compress '.*': must be fp16, int8, topk:RATIO .*powersgd:4$"):
        Compression.parse(text)
