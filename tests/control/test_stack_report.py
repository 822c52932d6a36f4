"""Who is the odd one out, from what faulthandler writes."""

from paceline.control.stack_report import TaskStacks, combine, main_thread, odd_one_out, report, summary_line
from paceline.control.watchdog import Progress
from paceline.messages import Stacks

SITE = "/venv/lib/python3.11/site-packages"
WAITS = (f"{SITE}/zmq/sugar/socket.py", 10, "recv"), ("/src/paceline/engines/torch/link.py", 50, "receive")
SERVES = (f"{SITE}/zmq/sugar/socket.py", 10, "recv"), ("/src/paceline/engines/torch/server.py", 107, "_answer")
READS = ("/usr/lib/python3.11/gzip.py", 3, "read"), ("/home/me/my_model.py", 12, "train")
APPLIES = (("/src/paceline/engines/torch/shard.py", 99, "_apply"),)
PROGRESS = Progress(813, 10.4)


def dump(*frames: tuple[str, int, str]) -> str:
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in frames]
    return "\n".join(
        [
            "Thread 0x00007f1c (most recent call first):",
            '  File "/usr/lib/python3.11/threading.py", line 320 in wait',
            "",
            "Current thread 0x00007f2c (most recent call first):",
            *lines,
            '  File "<frozen runpy>", line 88 in _run_code',
            "",
        ]
    )


def worker(number: int, frames: tuple[tuple[str, int, str], ...] = WAITS, state: str = "sleeping") -> TaskStacks:
    return TaskStacks(f"w{number}", f"h{number + 1}", state, dump(*frames) if frames else "", PROGRESS)


def server(number: int = 0, frames: tuple[tuple[str, int, str], ...] = SERVES) -> TaskStacks:
    return TaskStacks(f"ps{number}", "h1", "sleeping", dump(*frames))


def odd(*found: TaskStacks) -> str | None:
    one = odd_one_out(found, [one.task for one in found if one.is_worker], everyone=True)
    return one.task if one else None


def test_the_main_thread_comes_last_and_its_innermost_own_frame_is_the_place() -> None:
    found = worker(0)
    assert [frame.function for frame in main_thread(found.text)] == ["recv", "receive", "_run_code"]
    assert str(found.location) == "paceline/engines/torch/link.py:50 receive"
    assert str(worker(0, READS).location) == "/home/me/my_model.py:12 train"


def test_a_stopped_process_is_the_odd_one_out_and_is_said_to_be_stopped() -> None:
    stopped = worker(1, (), "stopped")
    found = [server(), worker(0), stopped, worker(2)]
    assert odd(*found) == "w1"
    line = summary_line(found, stopped, ("w0", "w1", "w2"), 10.4)
    assert line == "w1 on h2 is stuck: step 812, no progress for 10 s, does not answer: stopped, state T"
    told = report(found, stopped, line)
    assert told.startswith(line)
    row = next(row for row in told.splitlines() if row.startswith("->"))
    assert " ".join(row.split()) == "-> w1 h2 stopped step 812 10.4 does not answer: stopped, state T"
    assert told.count("==== ") == 4


def test_of_several_that_do_not_answer_the_stopped_one_is_to_blame() -> None:
    assert odd(worker(0, ()), worker(1, (), "stopped"), worker(2)) == "w1"


def test_a_stopped_server_is_to_blame_and_not_those_who_wait_for_it() -> None:
    stopped = TaskStacks("ps0", "h1", "stopped")
    assert odd(stopped, worker(0), worker(1)) == "ps0"
    assert summary_line([], stopped, (), 12) == (
        "ps0 on h1 is stuck: no progress for 12 s, does not answer: stopped, state T"
    )


def test_who_reads_while_the_others_wait_is_the_odd_one_out() -> None:
    assert odd(server(), worker(0), worker(1, READS), worker(2)) == "w1"
    assert odd(server(), worker(0, READS), worker(1)) == "w0"


def test_a_server_that_is_elsewhere_than_the_other_servers_is_the_odd_one_out() -> None:
    assert odd(server(0), server(1, APPLIES), server(2), worker(0), worker(1)) == "ps1"


def test_equals_are_not_told_apart() -> None:
    found = [server(), worker(0), worker(1)]
    assert odd(*found) is None
    assert odd(worker(0), worker(1, READS), worker(2, APPLIES)) is None
    assert (
        "w0, w1, most of them at paceline/engines/torch/link.py:50 receive; the stacks do not show which task causes it"
        in summary_line(found, None, ("w0", "w1"), 10)
    )


def test_an_asynchronous_worker_that_alone_stopped_needs_no_comparison() -> None:
    found = [server(), worker(0), worker(1)]
    one = odd_one_out(found, ["w1"], everyone=False)
    assert one
    assert one.task == "w1"


def test_a_task_nobody_told_of_does_not_answer() -> None:
    found = combine(
        {"w0": "h1", "w1": "h2"}, {"w0": Stacks("w0", dump(*WAITS), "sleeping")}, {"w0": PROGRESS, "w1": PROGRESS}
    )
    one = odd_one_out(found, ["w0", "w1"], everyone=True)
    assert one
    assert (one.task, one.activity) == ("w1", "does not answer: its agent did not answer")
