"""Builds HTML in which all text is escaped: names in a report may come from anyone."""

from html import escape
from typing import Any

import msgspec


class Html(str):
    """Markup that is complete and safe to insert into a page; plain `str` is escaped instead."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | bool | float | None) -> Html:
    """An HTML element. Plain text in it is escaped; `class_` is the attribute class, `data_x` is data-x."""
    attributes_text = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    return Html(f"<{name}{attributes_text}>{join(*children)}</{name}>")


def join(*parts: str) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def json_script(identity: str, value: Any) -> Html:
    """Data for the page's script; no text in it can end the script element."""
    text = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{escape(identity)}">{text}</script>')


def chart_text(text: str) -> str:
    """Text for a plotly chart, escaped because plotly renders some HTML tags in labels."""
    return escape(text, quote=False)


def _attribute(key: str, value: str | bool | float | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
