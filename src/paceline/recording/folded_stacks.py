"""Sampled stacks as text, a line each: `phase;outermost frame;…;innermost frame count`.

This is the format of flamegraph.pl, which other programs read, too.
"""

from collections import Counter
from collections.abc import Mapping

FILE_NAME = "stacks.folded"
_MOST_BYTES = 500_000
"""Of the text, in which the most frequent stacks come first."""
_MOST_FRAMES = 250

Stack = tuple[str, ...]
"""The phase and the frames, the outermost first."""


def encode(stacks: Mapping[Stack, int]) -> bytes:
    """The most frequent stacks that fit."""
    lines, size = [], 0
    for stack, count in Counter(stacks).most_common():
        line = f"{';'.join(map(_clean, stack))} {count}\n".encode(errors="replace")
        size += len(line)
        if size > _MOST_BYTES:
            break
        lines.append(line)
    return b"".join(lines)


def decode(data: bytes) -> dict[Stack, int]:
    """The stacks; lines of another form are left out."""
    stacks: Counter[Stack] = Counter()
    for line in data[:_MOST_BYTES].decode(errors="replace").splitlines():
        text, _, count = line.rpartition(" ")
        if text and count.isascii() and count.isdigit() and len(count) < 10:
            stacks[tuple(text.split(";")[:_MOST_FRAMES])] += int(count)
    return dict(stacks)


def _clean(frame: str) -> str:
    return " ".join(frame.replace(";", ",").split())
