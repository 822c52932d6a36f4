"""The command line: one verb a file, and the one place where user errors become a line and an exit code."""

import signal
import sys
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from paceline.cli import compare, completion, doctor, ls, report, reproduce, resume, run, show, workloads
from paceline.errors import RunError, UsageError, UserCodeError, one_line, printable

app = typer.Typer(
    name="paceline",
    help="Train a model on a cluster, measure every step on every host, and see what sets the pace.",
    invoke_without_command=True,
    # The options are in completion.py: Typer's own cannot be told which shell to use.
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_VERBS: dict[str, Callable[..., int]] = {
    "run": run.run,
    "resume": resume.resume,
    "ls": ls.ls,
    "show": show.show,
    "compare": compare.compare,
    "reproduce": reproduce.reproduce,
    "report": report.report,
    "workloads": workloads.workloads,
    "doctor": doctor.doctor,
}
for _name, _verb in _VERBS.items():
    app.command(_name)(_verb)


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    install_completion: completion.InstallCompletion = None,
    show_completion: completion.ShowCompletion = None,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"paceline {installed('paceline')}")
        raise typer.Exit
    if install_completion is not None:
        completion.install_script(install_completion)
        raise typer.Exit
    if show_completion is not None:
        completion.show_script(show_completion)
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign gets another one, not a fault.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    code = run_command(sys.argv[1:])
    # All is told: while the interpreter clears up, a Ctrl-C could only add a traceback to it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    try:
        code = app(args=completion.prepare(arguments), standalone_mode=False, prog_name="paceline")
    except UserCodeError as error:
        print(printable(error.traceback), end="", file=sys.stderr)
        return _refuse(str(error))
    except UsageError as error:
        return _refuse(str(error))
    except RunError as error:
        print(f"paceline: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, typer.Abort):
        print("paceline: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:
        line = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        print(f"paceline: {one_line(line)}", file=sys.stderr)
        return 1
    except Exception as error:
        # The command-line parser's own complaints carry a message for the user.
        if hasattr(error, "format_message"):
            line = " ".join(error.format_message().split()).rstrip(".") or "nothing to do"
            verb = f"{arguments[0]} " if arguments and arguments[0] in _VERBS else ""
            return _refuse(f"{line}: see paceline {verb}--help")
        return _internal(error)
    return code if isinstance(code, int) else 0


def _refuse(line: str) -> int:
    print(f"paceline: {one_line(line)}", file=sys.stderr)
    return 2


def _internal(error: Exception) -> int:
    """A fault of ours: the traceback goes to a file, its path to the screen."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="paceline-fault-", suffix=".log", delete=False) as log:
        traceback.print_exception(error, file=log)
    line = one_line(f"{type(error).__name__}: {error}")
    print(f"paceline: internal fault, {line}; the traceback is in {log.name}", file=sys.stderr)
    return 1
