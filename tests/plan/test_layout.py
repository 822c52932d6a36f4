import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import PlanError
from paceline.plan.layout import parse, resolve


def test_each_word_is_a_host_and_each_letter_a_task() -> None:
    layout = parse("pw w  w")
    assert str(layout) == "pw w w"
    assert [(place.task, place.host) for place in layout.places()] == [
        ("ps0", "h1"),
        ("w0", "h1"),
        ("w1", "h2"),
        ("w2", "h3"),
    ]


def test_named_layouts_adapt_to_the_strategy() -> None:
    assert str(resolve("cluster2", needs_server=True)) == "pw w w"
    assert str(resolve("cluster2", needs_server=False)) == "w w w"
    assert str(resolve("cluster", needs_server=True)) == "pw w"
    assert str(resolve("single", needs_server=True)) == "pw"
    assert str(resolve("single", needs_server=False)) == "w"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "empty"), ("   ", "empty"), ("pw x", "'x' is not a host"), ("clutser", "cluster"), ("w " * 65, "too many")],
)
def test_malformed_layout_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse(text)


@given(st.lists(st.text("pw", min_size=1, max_size=4), min_size=1, max_size=8))
def test_each_letter_becomes_one_task_on_its_host(words: list[str]) -> None:
    layout = parse(" ".join(words))
    places = layout.places()
    assert len({place.task for place in places}) == len(places) == sum(map(len, words))
    assert layout.workers + layout.servers == len(places)
    assert parse(str(layout)) == layout
    for host, word in zip(layout.hosts, words, strict=True):
        assert sum(place.host == host for place in places) == len(word)


@given(st.text(max_size=20))
def test_any_text_gives_a_layout_or_a_one_line_plan_error(text: str) -> None:
    try:
        layout = parse(text)
    except PlanError as error:
        assert "\n" not in str(error)
    else:
        assert layout.places()
