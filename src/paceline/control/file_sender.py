"""Sends files to the hosts that do not have them."""

import threading
from collections.abc import Iterable
from pathlib import Path

from paceline import messages
from paceline.control.cluster import Cluster, Received
from paceline.files.reference import FileRef

_PART_BYTES = 256 * 1024
"""Small, because messages to the same host wait for the part that is being sent."""


class FileSender:
    """Answers the agents' requests for files, one thread per request, so that the control loop goes on meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._files: dict[str, FileRef] = {}
        """Every file that a host may ask for, by SHA-256."""
        self._lock = threading.Lock()
        self._sent: dict[str, tuple[int, int]] = {}
        """By host, the bytes sent so far of the files that it asked for, and the bytes of all of them."""

    @property
    def unsent(self) -> dict[str, tuple[int, int]]:
        """By host that waits for files: the bytes sent so far, and the bytes of all of them."""
        with self._lock:
            return {host: (sent, of) for host, (sent, of) in self._sent.items() if sent < of}

    def ensure(self, host: str, files: Iterable[FileRef], *, keep: bool) -> None:
        """Tell a host which files its tasks need, before the message that starts them."""
        files = tuple(files)
        self._files.update((file.sha256, file) for file in files)
        if files:
            self._cluster.send(host, messages.EnsureFiles(files, keep))

    def requested(self, host: str, sha256: Iterable[str]) -> None:
        """A host asked for files."""
        files = [self._files[digest] for digest in sha256 if digest in self._files]
        self._count(host, 0, sum(file.size for file in files))
        threading.Thread(target=self._send, args=(host, files), name=f"files-{host}", daemon=True).start()

    def _send(self, host: str, files: list[FileRef]) -> None:
        for file in files:
            try:
                self._send_file(host, file)
            except OSError as error:
                line = f"{file.name} cannot be read on the controller's machine: {error.strerror or error}"
                self._cluster.inbox.put(Received(host, messages.FilesFailed(line)))
                return

    def _send_file(self, host: str, file: FileRef) -> None:
        remaining = file.size
        with Path(file.origin).open("rb") as content:
            while True:
                data = content.read(min(_PART_BYTES, remaining))
                self._cluster.send(host, messages.FilePart(file.sha256, data))
                remaining -= len(data)
                self._count(host, len(data), 0)
                if remaining <= 0:
                    return
                if not data:
                    raise OSError(f"it has become shorter than {file.size} bytes")

    def _count(self, host: str, sent: int, requested: int) -> None:
        with self._lock:
            before = self._sent.get(host, (0, 0))
            self._sent[host] = before[0] + sent, before[1] + requested
