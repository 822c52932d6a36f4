"""Typed messages as length-prefixed msgpack frames on a pipe: `Sender` writes them, `Receiver` reads them."""

import struct
import threading
from typing import BinaryIO, Generic, TypeVar

import msgspec

MAX_FRAME_BYTES = 64 * 2**20
_PIECE_BYTES = 2**20
_LENGTH = struct.Struct("<I")

M = TypeVar("M")
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder has to say of bytes that nobody encoded: wrong form, text that is none, lists in lists without end."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of everything that crosses a pipe."""


class FrameError(Exception):
    """Bytes on the pipe are not frames of ours."""


class Sender:
    """Writes messages to a pipe; safe to share between threads."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.msgpack.Encoder()
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        self.send_raw(self._encoder.encode(message))

    def send_raw(self, body: bytes) -> None:
        """A frame whose body is encoded already."""
        if len(body) > MAX_FRAME_BYTES:
            raise FrameError(f"a message of {len(body)} bytes is too large to send")
        with self._lock:
            self._stream.write(_LENGTH.pack(len(body)) + body)
            self._stream.flush()


class Receiver(Generic[M]):
    """Reads messages of one union type from a pipe until it closes."""

    def __init__(self, stream: BinaryIO, kind: object) -> None:
        self._stream = stream
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kind)

    def receive(self) -> M | None:
        """The next message; None when the other side closed the pipe (also in mid-frame)."""
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        (size,) = _LENGTH.unpack(head)
        if size > MAX_FRAME_BYTES:
            raise FrameError(f"a frame claims {size} bytes")
        body = self._read(size)
        if body is None:
            return None
        try:
            return self._decoder.decode(body)
        except UNREADABLE as error:
            raise FrameError(str(error)) from None

    def _read(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            # Piece by piece: room is made for what comes, not for what was announced.
            part = self._stream.read(min(size - len(parts), _PIECE_BYTES))
            if not part:
                return None
            parts += part
        return bytes(parts)
