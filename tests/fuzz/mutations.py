"""What may reach a parser that was never meant for it: good bytes gone bad, and bytes that never were good.

Cases are drawn from a fixed seed, so that what failed once fails again; a quick look in every run of the suite, a
thorough one with the slow tests.
"""

import random
from collections.abc import Iterator, Sequence

import pytest

THOROUGH = 100_000
_THOROUGH_S = 3_600
_SIZES = (
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
_MOST_AT_ONCE = 4


def quick_and_thorough(quick: int = 1_000, thorough: int = THOROUGH) -> pytest.MarkDecorator:
    """A test of `cases` cases: some, and with the slow tests as many as it takes."""
    patient = (pytest.mark.slow, pytest.mark.timeout(_THOROUGH_S))
    return pytest.mark.parametrize("cases", [quick, pytest.param(thorough, marks=patient)])


def mutants(good: Sequence[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """So many byte strings, most of them a few changes away from a good one."""
    chance = random.Random(seed)
    for _ in range(count):
        if chance.random() < 0.05:
            yield chance.randbytes(chance.choice((0, 1, 3, 4, 8, 60, 300)))
            continue
        data = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, _MOST_AT_ONCE)):
            chance.choice(_CHANGES)(data, chance, good)
        yield bytes(data)


def _place(data: bytearray, chance: random.Random) -> int:
    # Headers are where parsers believe what they read.
    return chance.randrange(min(len(data), 64 if chance.random() < 0.5 else len(data)) or 1)


def _flip(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    if data:
        data[_place(data, chance)] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    if data:
        data[_place(data, chance)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _number(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    """A size or count that is absurd."""
    width = chance.choice((1, 2, 4, 8))
    number = chance.choice(_SIZES) % 256**width
    start = _place(data, chance)
    data[start : start + width] = number.to_bytes(width, chance.choice(("little", "big")))


def _insert(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    data[(start := _place(data, chance)) : start] = chance.randbytes(chance.choice((1, 2, 4, 16)))


def _cut(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    start = _place(data, chance)
    del data[start : start + chance.choice((1, 2, 4, 8, 64))]


def _tear(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    del data[_place(data, chance) :]


def _repeat(data: bytearray, chance: random.Random, _good: Sequence[bytes]) -> None:
    start = _place(data, chance)
    data[start:start] = data[start : start + chance.choice((1, 4, 16, 64))] * chance.choice((1, 2, 30))


def _join(data: bytearray, chance: random.Random, good: Sequence[bytes]) -> None:
    """The beginning of one, the end of another."""
    other = chance.choice(good)
    data[_place(data, chance) :] = other[chance.randrange(len(other) or 1) :]


_CHANGES = (_flip, _byte, _number, _insert, _cut, _tear, _repeat, _join)
