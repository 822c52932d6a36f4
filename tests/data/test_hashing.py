"""Random bits from counters agree with SplitMix64 and depend on key and counter only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.hashing import as_uint16, as_uint32, make_key, random_bits

words = st.integers(0, 2**64 - 1)


def test_the_numbers_are_those_of_splitmix64() -> None:
    assert random_bits(0, np.arange(1, 4)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert make_key(0) == 0xE220A8397B1DCDAF


@given(words, st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_a_number_depends_on_its_counter_only(key: int, counters: list[int]) -> None:
    together = random_bits(key, np.array(counters))
    assert together.tolist() == [int(random_bits(key, np.array([counter]))[0]) for counter in counters]


@given(st.lists(words, min_size=1, max_size=3), st.lists(words, min_size=1, max_size=3))
def test_different_parts_give_different_keys(first: list[int], second: list[int]) -> None:
    assert (make_key(*first) == make_key(*second)) == (first == second)


def test_parts_of_words_are_uniformly_distributed() -> None:
    numbers = random_bits(make_key(7), np.arange(40_000))
    for parts in (as_uint32(numbers) / 2**32, as_uint16(numbers) / 2**16):
        assert abs(parts.mean() - 0.5) < 0.005
        assert abs(parts.std() - 12**-0.5) < 0.005
    assert as_uint32(numbers[:1]).tolist() == [int(numbers[0]) % 2**32, int(numbers[0]) >> 32]
