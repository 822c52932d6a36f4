"""What is shown comes from users' code and others' run directories: it must not move the cursor or rename a window."""

import io

from rich.table import Table

from paceline.cli.console import messages

NASTY = "\x1b[31mred\x1b]0;title\x07\x9b2J\r"


def shown(what: object) -> str:
    out = io.StringIO()
    messages(out).print(what, markup=False)
    return out.getvalue()


def test_escapes_in_text_and_tables_do_not_reach_the_terminal() -> None:
    table = Table("name")
    table.add_row(NASTY)
    for what in (NASTY, table, f"two\nlines\t{NASTY}"):
        text = shown(what)
        assert "red" in text
        assert text.replace("\n", "").replace("\t", "").isprintable(), repr(text)


def test_plain_text_is_shown_as_it_is() -> None:
    assert shown("größer · 3 × [bold]x[/]") == "größer · 3 × [bold]x[/]\n"
