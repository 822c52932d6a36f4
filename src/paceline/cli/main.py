"""The command line: the list of commands, and the only place that turns errors into messages and exit codes.

Each command is in a file of its own. Exit codes: 0 done, 1 the run failed, 2 refused before training began, 130
interrupted.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from paceline.cli import (
    advise,
    bench_collectives,
    compare,
    completion,
    doctor,
    export,
    hosts,
    launch,
    ls,
    predict,
    report,
    reproduce,
    resume,
    rm,
    run,
    show,
    ui,
    workloads,
)
from paceline.cli.streams import discard, error_stream, flush_streams, prepare_streams
from paceline.errors import RunError, UsageError, UserCodeError, one_line, printable

app = typer.Typer(
    name="paceline",
    help="Train a model on a cluster, measure every step on every host, find the bottleneck.",
    invoke_without_command=True,
    # completion.py defines these options: Typer's own do not accept the name of a shell and also detect it.
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_COMMANDS: dict[str, Callable[..., int]] = {
    "run": run.run,
    "launch": launch.launch,
    "resume": resume.resume,
    "ls": ls.ls,
    "rm": rm.rm,
    "show": show.show,
    "compare": compare.compare,
    "predict": predict.predict,
    "advise": advise.advise,
    "reproduce": reproduce.reproduce,
    "report": report.report,
    "export": export.export,
    "ui": ui.ui,
    "workloads": workloads.workloads,
    "doctor": doctor.doctor,
    "bench-collectives": bench_collectives.bench_collectives,
}
_SETTINGS = {"launch": {"allow_interspersed_args": False}}
"""Settings of the parser by command. What follows a user's script belongs to the script."""
for _name, _command in _COMMANDS.items():
    app.command(_name, context_settings=_SETTINGS.get(_name))(_command)
app.add_typer(hosts.app, name="hosts")


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
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
    """Run the command that the arguments of this process name, and exit with its code."""
    try:
        prepare_streams()
        _check_names(sys.argv[1:])
        code = run_command(sys.argv[1:])
    except UsageError as error:
        code = _refuse(str(error))
    flush_streams()
    # The command is finished. Ctrl-C during the interpreter's shutdown would only print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _check_names(arguments: list[str]) -> None:
    """Raise UsageError if the current directory is gone, or if a name cannot be written in the files of a run."""
    try:
        directory = os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current directory was deleted: change to another directory") from None
    for what, name in (("the current directory", directory), *(("argument", argument) for argument in arguments)):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} '{name}' is not valid UTF-8: rename the file or directory") from None


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code; errors are printed as one line on stderr."""
    try:
        code = app(args=completion.prepare(arguments), standalone_mode=False, prog_name="paceline")
    except UserCodeError as error:
        print(printable(error.traceback), end="", file=error_stream())
        return _refuse(str(error))
    except UsageError as error:
        return _refuse(str(error))
    except RunError as error:
        print(f"paceline: {error}", file=error_stream())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        print("paceline: interrupted", file=error_stream())
        return 130
    except (BrokenPipeError, SystemExit) as error:
        # The reader of stdout closed it, as in `paceline ls | head`. Typer turns this error into SystemExit.
        if not isinstance(error.__context__ or error, BrokenPipeError):
            raise
        discard(sys.stdout)
        return 0
    except OSError as error:
        line = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        print(f"paceline: {one_line(line)}", file=error_stream())
        return 1
    except Exception as error:
        # Errors of the command-line parser have this method; its message is for the user.
        if hasattr(error, "format_message"):
            line = " ".join(error.format_message().split()).rstrip(".") or "the arguments are not valid"
            command = f"{arguments[0]} " if arguments and arguments[0] in _COMMANDS else ""
            return _refuse(f"{line}: see paceline {command}--help")
        return _report_internal_error(error)
    return code if isinstance(code, int) else 0


def _refuse(line: str) -> int:
    print(f"paceline: {one_line(line)}", file=error_stream())
    return 2


def _report_internal_error(error: Exception) -> int:
    """Write the traceback of an error in Paceline itself to a file, and print the path of the file."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="paceline-error-", suffix=".log", delete=False) as log:
        traceback.print_exception(error, file=log)
    line = one_line(f"{type(error).__name__}: {error}")
    print(f"paceline: internal error: {line}; please report it with the traceback in {log.name}", file=error_stream())
    return 1
