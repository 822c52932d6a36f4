"""What a run that is starting says about what it waits for."""

from paceline.control.run_state import WaitingFor
from paceline.control.startup_progress import StartupProgress
from paceline.control.supervisor import Stage

HOSTS = {"ps0": "h1", "w0": "h1", "w1": "h2"}
STARTING = WaitingFor(Stage.BINDING.value, ("ps0 on h1", "w0 on h1", "w1 on h2"))


def test_files_then_processes_then_the_engine_are_named() -> None:
    progress = StartupProgress("torch", HOSTS, is_script=False)
    sending = progress.detail(STARTING, {"h2": (12_000_000, 80_000_000)})
    assert sending == WaitingFor("the files to be sent (12 of 80 MB)", ("h2",))
    progress.started("ps0")
    assert progress.detail(STARTING, {}) == WaitingFor("the tasks to start", ("w0 on h1", "w1 on h2"))
    progress.started("w0")
    progress.started("w1")
    importing = progress.detail(WaitingFor(Stage.BINDING.value, ("w1 on h2",)), {})
    assert importing == WaitingFor("the tasks to import torch and open the data", ("w1 on h2",))
    progress.exited("w1")
    assert progress.detail(STARTING, {}) == WaitingFor("the tasks to start", ("w1 on h2",))


def test_other_stages_are_left_as_they_are() -> None:
    progress = StartupProgress("torch", HOSTS, is_script=False)
    connecting = WaitingFor(Stage.CONNECTING.value, ("w1 on h2",))
    assert progress.detail(None, {}) is None
    assert progress.detail(connecting, {}) == connecting
    script = StartupProgress("torch", HOSTS, is_script=True)
    assert script.detail(connecting, {}) == WaitingFor("the first step of the script", ("w1 on h2",))
