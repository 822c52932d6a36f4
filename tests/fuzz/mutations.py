"""Invalid input for parsers: mutations of valid byte strings, and random bytes.

The cases are drawn from a fixed seed, so that a failure can be repeated. Every run of the test suite tries some cases,
the slow tests try many more.
"""

import random
from collections.abc import Iterator, Sequence

import pytest

THOROUGH = 100_000
"""Cases of a slow test, unless it says otherwise."""
_THOROUGH_TIMEOUT_S = 3_600
_EDGE_NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**60,
    2**63,
    2**64 - 1,
)
_MAX_CHANGES = 4


def quick_and_thorough(quick: int = 1_000, thorough: int = THOROUGH) -> pytest.MarkDecorator:
    """Parametrize a test with `cases`: `quick` of them, and as a slow test `thorough` of them."""
    slow = (pytest.mark.slow, pytest.mark.timeout(_THOROUGH_TIMEOUT_S))
    return pytest.mark.parametrize("cases", [quick, pytest.param(thorough, marks=slow)])


def mutants(valid: Sequence[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """Yield `count` byte strings, most of them a few changes away from a valid one, the others random."""
    rng = random.Random(seed)
    for _ in range(count):
        if rng.random() < 0.05:
            yield rng.randbytes(rng.choice((0, 1, 3, 4, 8, 60, 300)))
            continue
        data = bytearray(rng.choice(valid))
        for _ in range(rng.randint(1, _MAX_CHANGES)):
            rng.choice(_CHANGES)(data, rng, valid)
        yield bytes(data)


def _random_index(data: bytearray, rng: random.Random) -> int:
    # Half of the changes are in the first 64 bytes: parsers trust headers most.
    return rng.randrange(min(len(data), 64 if rng.random() < 0.5 else len(data)) or 1)


def _flip_bit(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    if data:
        data[_random_index(data, rng)] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    if data:
        data[_random_index(data, rng)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _set_number(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    """Overwrite some bytes with an extreme number, as a wrong size or count."""
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice(_EDGE_NUMBERS) % 256**width
    start = _random_index(data, rng)
    data[start : start + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _insert(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    data[(start := _random_index(data, rng)) : start] = rng.randbytes(rng.choice((1, 2, 4, 16)))


def _remove(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    start = _random_index(data, rng)
    del data[start : start + rng.choice((1, 2, 4, 8, 64))]


def _truncate(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    del data[_random_index(data, rng) :]


def _repeat(data: bytearray, rng: random.Random, _valid: Sequence[bytes]) -> None:
    start = _random_index(data, rng)
    data[start:start] = data[start : start + rng.choice((1, 4, 16, 64))] * rng.choice((1, 2, 30))


def _append_other(data: bytearray, rng: random.Random, valid: Sequence[bytes]) -> None:
    """Replace the rest by the end of another valid string."""
    other = rng.choice(valid)
    data[_random_index(data, rng) :] = other[rng.randrange(len(other) or 1) :]


_CHANGES = (_flip_bit, _set_byte, _set_number, _insert, _remove, _truncate, _repeat, _append_other)
