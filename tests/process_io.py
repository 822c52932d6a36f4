"""Line-by-line input and output of small processes that tests start."""

import subprocess


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line on the stdout of the process, without the line end; waits until there is one."""
    assert process.stdout
    return process.stdout.readline().strip()


def send_line(process: subprocess.Popen[str]) -> None:
    """Send an empty line to the stdin of the process, which wakes up a script that waits for one."""
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
