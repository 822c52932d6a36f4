"""A page as one HTML file without external resources: style sheet, script and data are embedded."""

import base64
import hashlib
from html import escape
from typing import Any

import msgspec

from paceline.page import assets

DATA_ID = "page-data"


def offline_html(title: str, data: dict[str, Any]) -> str:
    """The file. The browser runs only the script with the hash in its policy, and loads nothing."""
    script, style = _without_end(assets.script(), "script"), _without_end(assets.stylesheet(), "style")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        f"{_METAS}<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"{_BODY}{_data_element(data)}<script>{script}</script></body></html>\n"
    )


def served_html(title: str, data: dict[str, Any]) -> str:
    """The same page for a server, which has the style sheet and the script under /static and sets the policy."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{_METAS}<title>{escape(title)}</title>'
        '<link rel="stylesheet" href="/static/page.css"></head><body>'
        f'{_BODY}{_data_element(data)}<script src="/static/page.js"></script></body></html>\n'
    )


_METAS = (
    '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
    '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
)
_BODY = (
    '<a class="skip" href="#main">Skip to the contents</a><div id="page"></div>'
    "<noscript><p>This page draws its contents with JavaScript, which is switched off.</p></noscript>"
)


def _data_element(data: dict[str, Any]) -> str:
    """Data for the script; no text in it can end the element."""
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    return f'<script type="application/json" id="{DATA_ID}">{text}</script>'


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _without_end(text: str, element: str) -> str:
    """The text, which must not contain the end of the element that it is embedded in."""
    if f"</{element}" in text.lower():
        raise ValueError(f"a file of the page contains </{element}")
    return text
