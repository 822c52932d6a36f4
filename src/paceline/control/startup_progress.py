"""What a run that is starting waits for, in more detail than the stages of the supervisor. Pure."""

from collections.abc import Mapping

from paceline.control.failures import describe
from paceline.control.run_state import WaitingFor
from paceline.control.supervisor import Stage


class StartupProgress:
    """Knows which tasks have started, and adds that to what the supervisor says a run waits for."""

    def __init__(self, engine: str, task_hosts: Mapping[str, str], *, is_script: bool) -> None:
        self._engine, self._task_hosts, self._is_script = engine, task_hosts, is_script
        self._started: set[str] = set()

    def started(self, task: str) -> None:
        """The process of a task has started."""
        self._started.add(task)

    def exited(self, task: str) -> None:
        self._started.discard(task)

    def detail(self, waiting: WaitingFor | None, unsent: Mapping[str, tuple[int, int]]) -> WaitingFor | None:
        """`unsent`: by host, the bytes sent so far of the files that it asked for, and the bytes of all of them."""
        if waiting is None:
            return None
        if waiting.what == Stage.BINDING.value:
            return self._describe_start(waiting, unsent)
        if waiting.what == Stage.CONNECTING.value and self._is_script:
            return WaitingFor("the first step of the script", waiting.missing)
        return waiting

    def _describe_start(self, waiting: WaitingFor, unsent: Mapping[str, tuple[int, int]]) -> WaitingFor:
        if unsent:
            sent, of = (sum(one[index] for one in unsent.values()) / 1e6 for index in (0, 1))
            return WaitingFor(f"the files to be sent ({sent:,.0f} of {of:,.0f} MB)", tuple(sorted(unsent)))
        started = {describe(task, self._task_hosts[task]) for task in self._started}
        if not_started := tuple(name for name in waiting.missing if name not in started):
            return WaitingFor(waiting.what, not_started)
        return WaitingFor(f"the tasks to import {self._engine} and open the data", waiting.missing)
