"""Messages survive framing, and invalid bytes give no other error than FrameError."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.messages import (
    MAX_FRAME_BYTES,
    Bound,
    FrameError,
    FromAgent,
    Go,
    HostSample,
    LinkCount,
    Ping,
    Receiver,
    Records,
    Samples,
    Sender,
    SendToTask,
    TaskExited,
    TaskMessage,
    TaskSample,
    ToAgent,
)


def frames(*messages: object) -> bytes:
    """The bytes that a sender writes for these messages."""
    stream = io.BytesIO()
    for message in messages:
        Sender(stream).send(message)  # type: ignore[arg-type]
    return stream.getvalue()


def test_messages_arrive_as_they_were_sent() -> None:
    sample = HostSample(1, 0.5, [1.0, 2.0], 10, LinkCount(1, 2, 3, 4), LinkCount(), 5, 6, [TaskSample("w0", 0.1, 9, 3)])
    messages = [
        TaskMessage("w0", Bound({"a": "b"})),
        TaskExited("w1", -9, 5),
        Records("w0", b"x" * 100),
        Samples([sample]),
    ]
    receiver = Receiver[FromAgent](io.BytesIO(frames(*messages)), FromAgent)
    assert [receiver.receive() for _ in messages] == messages
    assert receiver.receive() is None


def test_receive_returns_none_when_the_pipe_closes_in_the_middle_of_a_frame() -> None:
    data = frames(Ping(1), SendToTask("w0", Go()))
    receiver = Receiver[ToAgent](io.BytesIO(data[:-1]), ToAgent)
    assert receiver.receive() == Ping(1)
    assert receiver.receive() is None


def test_a_frame_that_announces_too_many_bytes_is_rejected_unread() -> None:
    receiver = Receiver[ToAgent](io.BytesIO((MAX_FRAME_BYTES + 1).to_bytes(4, "little") + b"x"), ToAgent)
    with pytest.raises(FrameError, match="announces"):
        receiver.receive()


@given(st.binary(max_size=200))
def test_any_bytes_give_messages_end_of_pipe_or_a_frame_error(data: bytes) -> None:
    receiver = Receiver[FromAgent](io.BytesIO(data), FromAgent)
    try:
        while receiver.receive() is not None:
            pass
    except FrameError:
        pass


@given(st.binary(max_size=100))
def test_any_frame_body_gives_a_message_or_a_frame_error(body: bytes) -> None:
    stream = io.BytesIO(len(body).to_bytes(4, "little") + body)
    try:
        Receiver[ToAgent](stream, ToAgent).receive()
    except FrameError:
        pass
