"""Typed messages as length-prefixed msgpack frames on a pipe: `Sender` writes them, `Receiver` reads them."""

import struct
import threading
from typing import BinaryIO, Generic, TypeVar

import msgspec

MAX_FRAME_BYTES = 64 * 2**20
_READ_BYTES = 2**20
_LENGTH = struct.Struct("<I")
"""The prefix of each frame: the length of its body in bytes, 32 bits, little-endian."""

START_MARKER = b"\x00paceline-frames-1\x00"
"""What an agent writes before its first frame: a remote shell may print a greeting to the same stream."""
_MAX_GREETING_BYTES = 64 * 1024

M = TypeVar("M")
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not a valid message: wrong structure, text that is not UTF-8, nesting that is
too deep."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base class of everything that is sent over a pipe."""


class FrameError(Exception):
    """Bytes on the pipe are not a valid frame, or a message is too large for one."""


def write_start_marker(stream: BinaryIO) -> None:
    stream.write(START_MARKER)
    stream.flush()


def skip_to_start_marker(stream: BinaryIO) -> None:
    """Read up to the end of the start marker, whatever precedes it.

    FrameError, with the end of what was read instead, if the stream closes or no marker comes.
    """
    read = bytearray()
    while not read.endswith(START_MARKER):
        byte = stream.read(1)
        if not byte or len(read) >= _MAX_GREETING_BYTES:
            raise FrameError(_no_marker(bytes(read)))
        read += byte


def _no_marker(read: bytes) -> str:
    lines = read[-1000:].decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"the agent did not start: {f'the host said {said!r}' if said else 'its pipe was closed'}"


class Sender:
    """Writes messages to a pipe; safe to share between threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.msgpack.Encoder()
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        self.send_raw(self._encoder.encode(message))

    def send_raw(self, body: bytes) -> None:
        """Send a frame whose body is encoded already."""
        if len(body) > MAX_FRAME_BYTES:
            raise FrameError(f"a message of {len(body)} bytes is too large: at most {MAX_FRAME_BYTES} can be sent")
        with self._lock:
            self._stream.write(_LENGTH.pack(len(body)) + body)
            self._stream.flush()


class Receiver(Generic[M]):
    """Reads messages of one union type from a pipe until it closes."""

    def __init__(self, stream: BinaryIO, kind: object) -> None:
        self._stream = stream
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kind)

    def receive(self) -> M | None:
        """The next message; None when the other side has closed the pipe, also in the middle of a frame."""
        prefix = self._read(_LENGTH.size)
        if prefix is None:
            return None
        (size,) = _LENGTH.unpack(prefix)
        if size > MAX_FRAME_BYTES:
            raise FrameError(f"a frame announces {size} bytes: at most {MAX_FRAME_BYTES} are allowed")
        body = self._read(size)
        if body is None:
            return None
        try:
            return self._decoder.decode(body)
        except DECODE_ERRORS as error:
            raise FrameError(str(error)) from None

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            # Read in chunks, so that memory grows with the bytes that arrive, not with the length announced.
            chunk = self._stream.read(min(size - len(data), _READ_BYTES))
            if not chunk:
                return None
            data += chunk
        return bytes(data)
