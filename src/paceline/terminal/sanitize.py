"""A console that replaces control characters in text, so that text of other people cannot send escape sequences."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment

from paceline.errors import printable


def sanitized(console: Console) -> Console:
    console.push_render_hook(_SanitizeHook())
    return console


class _SanitizeHook(RenderHook):
    """Replaces control characters in everything a console prints; rich itself passes them on."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Sanitized(renderable) for renderable in renderables]


class _Sanitized:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._renderable, options):
            # Rich's own escape sequences stay: colours are styles here, and cursor movements are control segments.
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
