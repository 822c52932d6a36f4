"""Requests and answers between neighbours: through pipes, since values pass through memory they share.

A server has one pipe for the requests of all its workers, and a worker one for each server's answers. Others open them
through their owner's entry in /proc, like shared memory: nothing has a name or listens, and the system lets in the same
user only. A message wakes whoever waits for it and nobody else; ZeroMQ's takes two threads more on its way.

    request    a slip of fixed size, so small that slips of several workers never mix: who, what kind, how long, content
    answer     how many bytes of values follow, header, values
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
from paceline.paramserver.transports.connection import LOOK_MS, PATIENCE_MS, ServerConnection
from paceline.paramserver.transports.server_transport import Unreachable
from paceline.paramserver.transports.shared_memory import is_peer_path, path_of
from paceline.paramserver.wire import REPLY_BYTES, Buffer, Reply, Request, WireError, Worker
from paceline.train.context import Job

_SLIP_BYTES = 128
_SLIP = struct.Struct("<HBB")
_MESSAGE, _HELLO = 0, 1
"""A hello says where the worker's own pipe is. It comes right before the worker's first request: what is still to be
answered to one who had the name before must not get into this one's pipe."""
_MOST_CONTENT = _SLIP_BYTES - _SLIP.size
_READ_BYTES = 64 * _SLIP_BYTES
_SIZE = struct.Struct("<Q")
_SPARE_ANSWERS = 64
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENXIO)


class PipeServerTransport:
    """A server's end, at which no worker has more than so many messages on the way."""

    def __init__(self, workers: int, messages: int) -> None:
        # Its other end stays open, or the pipe would be at its end whenever no worker has it open.
        self._inbox, self._kept_open = os.pipe()
        self._slips: deque[tuple[Worker, int, bytes]] = deque()
        self._outboxes: dict[Worker, _Outbox] = {}
        self._unheard = dict.fromkeys((b"w%d" % number for number in range(workers)), "it has not said hello")
        """Who cannot be answered, and why not."""
        self._behind: set[Worker] = set()
        """Who has not yet taken all that it was answered."""
        self._most_unsent = 2 * messages + _SPARE_ANSWERS

    @property
    def address(self) -> str:
        return path_of(self._inbox)

    def next_sender(self) -> Worker:
        while not self._has_message():
            if self._behind:
                self._catch_up()
            data = os.read(self._inbox, _READ_BYTES)
            self._slips.extend([_slip(data, start) for start in range(0, len(data), _SLIP_BYTES)])
        return self._slips[0][0]

    def message(self) -> list[Buffer]:
        return [self._slips.popleft()[2]]

    def answer(self, worker: Worker, head: bytes, values: Buffer) -> None:
        if worker not in self._outboxes:
            raise Unreachable(self._unheard.get(worker, "it is none of ours"))
        outbox = self._outboxes[worker]
        outbox.put(head, values)
        self._send(worker)
        if len(outbox.unsent) > self._most_unsent:
            self._hang_up(worker, "it takes no answers")
            raise Unreachable(self._unheard[worker])

    def close(self) -> None:
        for worker in list(self._outboxes):
            self._hang_up(worker, "the server is gone")
        os.close(self._inbox)
        os.close(self._kept_open)

    def _catch_up(self) -> None:
        """Get on with what could not be sent, until all is, or there is something to read."""
        poll = select.poll()
        poll.register(self._inbox, select.POLLIN)
        for worker in self._behind:
            poll.register(self._outboxes[worker].end, select.POLLOUT)
        while self._behind:
            ready = {end for end, _ in poll.poll()}
            for worker in [worker for worker in self._behind if self._outboxes[worker].end in ready]:
                end = self._outboxes[worker].end
                with suppress(Unreachable):
                    self._send(worker)
                if worker not in self._behind:
                    poll.unregister(end)
            if self._inbox in ready:
                return

    def _has_message(self) -> bool:
        """Greets whoever says hello first: all that came before is answered by now."""
        while self._slips and self._slips[0][1] == _HELLO:
            worker, _, where = self._slips.popleft()
            self._greet(worker, where.decode("ascii", "replace"))
        return bool(self._slips)

    def _greet(self, worker: Worker, path: str) -> None:
        """Whoever comes back under a name comes with another pipe."""
        if worker not in self._outboxes.keys() | self._unheard.keys():
            return
        self._hang_up(worker, "it came back")
        try:
            self._outboxes[worker] = _Outbox(path)
        except (RunError, OSError) as error:
            self._unheard[worker] = str(error)
        else:
            self._unheard.pop(worker, None)

    def _send(self, worker: Worker) -> None:
        """As much as there is room for; nobody else has to wait for the rest."""
        try:
            is_behind = not self._outboxes[worker].flush()
        except OSError as error:
            self._hang_up(worker, str(error.strerror))
            raise Unreachable(self._unheard[worker]) from None
        (self._behind.add if is_behind else self._behind.discard)(worker)

    def _hang_up(self, worker: Worker, why: str) -> None:
        self._behind.discard(worker)
        if worker in self._outboxes:
            os.close(self._outboxes.pop(worker).end)
            self._unheard[worker] = why


class _Outbox:
    """What is to go to one worker."""

    def __init__(self, path: str) -> None:
        self.end = _opened(path)
        self.unsent: deque[memoryview] = deque()

    def put(self, head: bytes, values: Buffer) -> None:
        size = memoryview(values).nbytes
        self.unsent.append(memoryview(_SIZE.pack(size) + head))
        if size:
            self.unsent.append(memoryview(values).cast("B"))

    def flush(self) -> bool:
        """Whether all is sent."""
        while self.unsent:
            piece = self.unsent[0]
            try:
                sent = os.write(self.end, piece)
            except BlockingIOError:
                return False
            if sent == piece.nbytes:
                self.unsent.popleft()
            else:
                self.unsent[0] = piece[sent:]
        return True


class PipeConnection(ServerConnection):
    """A worker's end."""

    def __init__(self, task: str, address: str, job: Job, recalled: threading.Event) -> None:
        super().__init__(task, recalled)
        self._number = job.index
        self._ends: list[int] = []
        try:
            self._server = _opened(address)
            self._ends.append(self._server)
            os.set_blocking(self._server, True)
            # The end that the server has open too: without any the pipe would be at its end before it has.
            self._answers, kept_open = os.pipe()
            self._ends += (self._answers, kept_open)
        except PeersGone as error:
            raise PeersGone(f"{task} is not there: {error}") from None
        except OSError:
            self.close()
            raise
        self._hello = self._slip(_HELLO, path_of(self._answers).encode())
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        self._poll.register(self._server, 0)  # Nothing but that nobody reads from it any more.

    def send(self, request: Request, values: Buffer = b"") -> None:
        slips, self._hello = self._hello + self._slip(_MESSAGE, request.head() + bytes(values)), b""
        try:
            os.write(self._server, slips)
        except BrokenPipeError:
            raise PeersGone(f"{self.task} is gone") from None

    def receive(self) -> tuple[Reply, Buffer]:
        first = self._read(_SIZE.size + REPLY_BYTES)
        (size,) = _SIZE.unpack_from(first)
        return Reply.unpack([first[_SIZE.size :], self._read(size) if size else b""])

    def close(self) -> None:
        while self._ends:
            os.close(self._ends.pop())

    abandon = close

    def _slip(self, kind: int, content: bytes) -> bytes:
        if len(content) > _MOST_CONTENT:
            raise WireError(f"a request of {len(content)} bytes does not go through a pipe")
        return (_SLIP.pack(self._number, kind, len(content)) + content).ljust(_SLIP_BYTES, b"\0")

    def _read(self, size: int) -> Buffer:
        self._wait()
        found = os.read(self._answers, size)
        return found if len(found) == size else self._read_on(found, size)

    def _read_on(self, found: bytes, size: int) -> Buffer:
        """Values that come in pieces."""
        whole = bytearray(size)
        view, done = memoryview(whole), len(found)
        view[:done] = found
        while done < size:
            self._wait()
            done += os.readv(self._answers, [view[done:]])
        return whole

    def _wait(self) -> None:
        for _ in range(PATIENCE_MS // LOOK_MS):
            if events := self._poll.poll(LOOK_MS):
                # The last answer may have come just before the server went.
                if all(end == self._server for end, _ in events) and not self._has_answer():
                    raise PeersGone(f"{self.task} is gone, and owed an answer")
                return
            self.heed_recall()
        raise self.no_answer()

    def _has_answer(self) -> bool:
        return any(end == self._answers for end, _ in self._poll.poll(0))


def _slip(data: bytes, start: int) -> tuple[Worker, int, bytes]:
    """Who sent it, of what kind it is, and its content."""
    number, kind, size = _SLIP.unpack_from(data, start)
    begin = start + _SLIP.size
    return b"w%d" % number, kind, data[begin : begin + min(size, _MOST_CONTENT)]


def _opened(path: str) -> int:
    """The end to write to of another process's pipe; never waits for anybody to read from it. PeersGone if there is
    none."""
    if not is_peer_path(path):
        raise PeersGone(f"{path[:40]!r} is no pipe")
    try:
        end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except PermissionError:
        raise RunError(f"may not open {path}, a neighbour's pipe: add --set transport=tcp") from None
    except OSError as error:
        if error.errno not in _GONE:
            raise
        raise PeersGone(f"{path} is not there") from None
    if not stat.S_ISFIFO(os.fstat(end).st_mode):  # The process is gone, and its number another's.
        os.close(end)
        raise PeersGone(f"{path} is no pipe")
    return end
