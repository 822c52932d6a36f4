"""Requests and replies between processes of one host: through pipes, while the values are in shared memory.

A server has one pipe for the requests of all workers, and a worker has one pipe for the replies of each server. The
other side opens a pipe through its owner's entry in /proc, as with shared memory: a pipe has no name and no port, and
the kernel lets in only processes of the same user. A message through a pipe wakes only the process that waits for it;
with ZeroMQ it also passes through two I/O threads.

    request    a frame of fixed size: worker number, kind, content length, content. It is smaller than PIPE_BUF, so
               writes are atomic and frames of several workers never mix.
    reply      the size of the values in bytes, the header, the values
"""

import errno
import os
import select
import stat
import struct
import threading
from collections import deque
from contextlib import suppress

from paceline.errors import PeersGone, RunError
from paceline.paramserver.transports.connection import POLL_MS, REPLY_TIMEOUT_MS, ServerConnection
from paceline.paramserver.transports.server_transport import Unreachable
from paceline.paramserver.transports.shared_memory import is_peer_path, peer_path
from paceline.paramserver.wire import REPLY_BYTES, Buffer, Reply, Request, WireError, WorkerName
from paceline.train.context import Job

_FRAME_BYTES = 128
_FRAME_HEADER = struct.Struct("<HBB")
_REQUEST, _HELLO = 0, 1
"""The kinds of frames. A hello carries the path of the worker's reply pipe. It is sent right before the worker's first
request, not earlier: replies that are still due to a previous process of this worker must not go into the new pipe."""
_MAX_CONTENT_BYTES = _FRAME_BYTES - _FRAME_HEADER.size
_READ_BYTES = 64 * _FRAME_BYTES
_SIZE = struct.Struct("<Q")
_SPARE_REPLIES = 64
_GONE_ERRNOS = (errno.ENOENT, errno.ESRCH, errno.ENXIO)
"""Errors of opening a pipe whose process or reader is gone."""


class PipeServerTransport:
    """A server's side. `messages` is how many messages each worker may have in flight."""

    def __init__(self, workers: int, messages: int) -> None:
        # The write end stays open here too; otherwise reading would report the end of the file while no worker has it
        # open.
        self._requests_fd, self._unused_write_fd = os.pipe()
        self._frames: deque[tuple[WorkerName, int, bytes]] = deque()
        self._queues: dict[WorkerName, _ReplyQueue] = {}
        self._unreachable = dict.fromkeys((b"w%d" % number for number in range(workers)), "it has not said hello")
        """The workers to which no reply can be sent, with the reason."""
        self._backlogged: set[WorkerName] = set()
        """The workers whose pipe was full, so that some of their replies are not sent yet."""
        self._max_unsent = 2 * messages + _SPARE_REPLIES

    @property
    def address(self) -> str:
        return peer_path(self._requests_fd)

    def next_sender(self) -> WorkerName:
        while not self._has_request():
            if self._backlogged:
                self._send_backlog()
            data = os.read(self._requests_fd, _READ_BYTES)
            self._frames.extend([_decode_frame(data, start) for start in range(0, len(data), _FRAME_BYTES)])
        return self._frames[0][0]

    def read_request(self) -> list[Buffer]:
        return [self._frames.popleft()[2]]

    def send_reply(self, worker: WorkerName, header: bytes, values: Buffer) -> None:
        if worker not in self._queues:
            raise Unreachable(self._unreachable.get(worker, "it is not a worker of this run"))
        queue = self._queues[worker]
        queue.put(header, values)
        self._send(worker)
        if len(queue.unsent) > self._max_unsent:
            self._disconnect(worker, "it does not read its replies")
            raise Unreachable(self._unreachable[worker])

    def close(self) -> None:
        for worker in list(self._queues):
            self._disconnect(worker, "the server is closed")
        os.close(self._requests_fd)
        os.close(self._unused_write_fd)

    def _send_backlog(self) -> None:
        """Send replies that did not fit into the pipes, until all are sent or a request can be read."""
        poll = select.poll()
        poll.register(self._requests_fd, select.POLLIN)
        for worker in self._backlogged:
            poll.register(self._queues[worker].fd, select.POLLOUT)
        while self._backlogged:
            ready = {fd for fd, _ in poll.poll()}
            for worker in [worker for worker in self._backlogged if self._queues[worker].fd in ready]:
                fd = self._queues[worker].fd
                with suppress(Unreachable):
                    self._send(worker)
                if worker not in self._backlogged:
                    poll.unregister(fd)
            if self._requests_fd in ready:
                return

    def _has_request(self) -> bool:
        """Whether the next frame is a request; handles hellos before it, when all earlier requests are answered."""
        while self._frames and self._frames[0][1] == _HELLO:
            worker, _, path = self._frames.popleft()
            self._connect(worker, path.decode("ascii", "replace"))
        return bool(self._frames)

    def _connect(self, worker: WorkerName, path: str) -> None:
        """Open the worker's reply pipe. A restarted worker has a new pipe, which replaces the old one."""
        if worker not in self._queues.keys() | self._unreachable.keys():
            return
        self._disconnect(worker, "it was restarted")
        try:
            self._queues[worker] = _ReplyQueue(path)
        except (RunError, OSError) as error:
            self._unreachable[worker] = str(error)
        else:
            self._unreachable.pop(worker, None)

    def _send(self, worker: WorkerName) -> None:
        """Send as much as fits into the worker's pipe; the rest is sent later, so that no other worker waits."""
        try:
            has_backlog = not self._queues[worker].flush()
        except OSError as error:
            self._disconnect(worker, str(error.strerror))
            raise Unreachable(self._unreachable[worker]) from None
        (self._backlogged.add if has_backlog else self._backlogged.discard)(worker)

    def _disconnect(self, worker: WorkerName, reason: str) -> None:
        self._backlogged.discard(worker)
        if worker in self._queues:
            os.close(self._queues.pop(worker).fd)
            self._unreachable[worker] = reason


class _ReplyQueue:
    """The write end of a worker's reply pipe, with the replies that are not written yet."""

    def __init__(self, path: str) -> None:
        self.fd = _open_for_writing(path)
        self.unsent: deque[memoryview] = deque()

    def put(self, header: bytes, values: Buffer) -> None:
        size = memoryview(values).nbytes
        self.unsent.append(memoryview(_SIZE.pack(size) + header))
        if size:
            self.unsent.append(memoryview(values).cast("B"))

    def flush(self) -> bool:
        """Write until the pipe is full; returns whether everything is written."""
        while self.unsent:
            piece = self.unsent[0]
            try:
                written = os.write(self.fd, piece)
            except BlockingIOError:
                return False
            if written == piece.nbytes:
                self.unsent.popleft()
            else:
                self.unsent[0] = piece[written:]
        return True


class PipeConnection(ServerConnection):
    """A worker's connection to one server."""

    def __init__(self, task: str, address: str, job: Job, disconnect: threading.Event) -> None:
        super().__init__(task, disconnect)
        self._number = job.index
        self._fds: list[int] = []
        try:
            self._requests_fd = _open_for_writing(address)
            self._fds.append(self._requests_fd)
            os.set_blocking(self._requests_fd, True)
            # The write end, which the server opens too, stays open here as well; otherwise reading would report the end
            # of the file until the server has opened it.
            self._replies_fd, unused_write_fd = os.pipe()
            self._fds += (self._replies_fd, unused_write_fd)
        except PeersGone as error:
            raise PeersGone(f"cannot connect to {task}: {error}") from None
        except OSError:
            self.close()
            raise
        self._hello = self._encode_frame(_HELLO, peer_path(self._replies_fd).encode())
        self._poll = select.poll()
        self._poll.register(self._replies_fd, select.POLLIN)
        # No events are requested: poll still reports when the server, the only reader of this pipe, has closed it.
        self._poll.register(self._requests_fd, 0)

    def send(self, request: Request, values: Buffer = b"") -> None:
        frames, self._hello = self._hello + self._encode_frame(_REQUEST, request.header() + bytes(values)), b""
        try:
            os.write(self._requests_fd, frames)
        except BrokenPipeError:
            raise PeersGone(f"{self.task} is gone") from None

    def receive(self) -> tuple[Reply, Buffer]:
        start = self._read(_SIZE.size + REPLY_BYTES)
        (size,) = _SIZE.unpack_from(start)
        return Reply.unpack([start[_SIZE.size :], self._read(size) if size else b""])

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    abandon = close

    def _encode_frame(self, kind: int, content: bytes) -> bytes:
        if len(content) > _MAX_CONTENT_BYTES:
            raise WireError(f"a request of {len(content)} bytes is too long for a pipe: at most {_MAX_CONTENT_BYTES}")
        return (_FRAME_HEADER.pack(self._number, kind, len(content)) + content).ljust(_FRAME_BYTES, b"\0")

    def _read(self, size: int) -> Buffer:
        self._wait()
        data = os.read(self._replies_fd, size)
        return data if len(data) == size else self._read_rest(data, size)

    def _read_rest(self, start: bytes, size: int) -> Buffer:
        """Read on until `size` bytes are there: values larger than the pipe arrive in pieces."""
        data = bytearray(size)
        view, done = memoryview(data), len(start)
        view[:done] = start
        while done < size:
            self._wait()
            done += os.readv(self._replies_fd, [view[done:]])
        return data

    def _wait(self) -> None:
        """Wait until a reply can be read."""
        for _ in range(REPLY_TIMEOUT_MS // POLL_MS):
            if events := self._poll.poll(POLL_MS):
                # If only the server's end was reported, look again: a last reply may have come just before it closed.
                if all(fd == self._requests_fd for fd, _ in events) and not self._has_reply():
                    raise PeersGone(f"{self.task} is gone while a reply was due")
                return
            self.raise_if_disconnected()
        raise self.timeout_error()

    def _has_reply(self) -> bool:
        return any(fd == self._replies_fd for fd, _ in self._poll.poll(0))


def _decode_frame(data: bytes, start: int) -> tuple[WorkerName, int, bytes]:
    """The sender, the kind and the content of the frame at `start`."""
    number, kind, size = _FRAME_HEADER.unpack_from(data, start)
    begin = start + _FRAME_HEADER.size
    return b"w%d" % number, kind, data[begin : begin + min(size, _MAX_CONTENT_BYTES)]


def _open_for_writing(path: str) -> int:
    """The write end of another process's pipe; never waits for a reader. PeersGone if the pipe does not exist."""
    if not is_peer_path(path):
        raise PeersGone(f"{path[:40]!r} is not the path of a pipe")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except PermissionError:
        raise RunError(f"no permission to open the pipe {path} of a peer: add --set transport=tcp") from None
    except OSError as error:
        if error.errno not in _GONE_ERRNOS:
            raise
        raise PeersGone(f"{path} does not exist") from None
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):  # The process is gone and another one has its id now.
        os.close(fd)
        raise PeersGone(f"{path} is not a pipe")
    return fd
