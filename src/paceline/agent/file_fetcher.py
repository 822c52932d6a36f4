"""Gets the files that tasks need onto the host, and holds back messages to tasks until they are there."""

from paceline.errors import RunError
from paceline.files.store import FileStore
from paceline.messages import EnsureFiles, FilePart, FilesFailed, NeedFiles, Sender, ToAgent


class FileFetcher:
    """Requests missing files from the controller and stores them."""

    def __init__(self, store: FileStore, to_controller: Sender) -> None:
        self._store, self._to_controller = store, to_controller
        self._missing: set[str] = set()
        self._held: list[ToAgent] = []

    def hold(self, message: ToAgent) -> bool:
        """Whether the message must wait for files; `take_held` returns it later."""
        if self._missing:
            self._held.append(message)
        return bool(self._missing)

    def take_held(self) -> list[ToAgent]:
        """The messages that may be handled now; none while a file is missing."""
        if self._missing:
            return []
        held, self._held = self._held, []
        return held

    def ensure(self, message: EnsureFiles) -> None:
        """Request those files that the host does not have."""
        missing = {file.sha256: file for file in self._store.missing(message.files) if file.sha256 not in self._missing}
        try:
            for file in missing.values():
                self._store.expect(file, keep=message.keep)
        except OSError as error:
            self._fail(f"{file.name} ({file.size / 1e6:.1f} MB)", error)
            return
        self._missing |= missing.keys()
        if missing:
            self._to_controller.send(NeedFiles(tuple(missing)))

    def receive(self, part: FilePart) -> None:
        try:
            if self._store.receive(part.sha256, part.data):
                self._missing.discard(part.sha256)
        except (OSError, RunError) as error:
            self._fail("a file of the run", error)

    def _fail(self, what: str, error: OSError | RunError) -> None:
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._to_controller.send(FilesFailed(f"cannot store {what}: {cause}"))
