"""HTML from names that anyone may have written: text is escaped unless it was made here."""

from html import escape
from typing import Any

import msgspec


class Html(str):
    """Markup that is whole and safe to put into a page."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | bool | float | None) -> Html:
    """An element; plain text in it is escaped, `class_` is the attribute class, `data_x` is data-x."""
    marks = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    return Html(f"<{name}{marks}>{join(*children)}</{name}>")


def join(*parts: str) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def json_script(identity: str, value: Any) -> Html:
    """Data for the page's script, in a form that no text in it can break out of."""
    text = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{escape(identity)}">{text}</script>')


def label(text: str) -> str:
    """Text for a figure, whose labels take some HTML of their own."""
    return escape(text, quote=False)


def _attribute(key: str, value: str | bool | float | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
