"""Printed text may come from users' code and other people's run directories: it must not control the terminal."""

import io

from rich.table import Table

from paceline.cli.console import messages

ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\r"


def printed(content: object) -> str:
    out = io.StringIO()
    messages(out).print(content, markup=False)
    return out.getvalue()


def test_escape_sequences_in_text_and_tables_do_not_reach_the_terminal() -> None:
    table = Table("name")
    table.add_row(ESCAPES)
    for content in (ESCAPES, table, f"two\nlines\t{ESCAPES}"):
        text = printed(content)
        assert "red" in text
        assert text.replace("\n", "").replace("\t", "").isprintable(), repr(text)


def test_plain_text_is_printed_unchanged() -> None:
    assert printed("größer · 3 × [bold]x[/]") == "größer · 3 × [bold]x[/]\n"


def test_long_lines_are_not_wrapped_where_there_is_no_terminal() -> None:
    line = "quadrants-1: failed, " + "a long reason " * 20
    assert printed(line) == f"{line}\n"
