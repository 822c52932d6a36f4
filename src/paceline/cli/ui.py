"""paceline ui: the page of all runs, in the browser."""

from typing import Annotated

import typer

from paceline.cli.options import DEFAULT_RUNS, NUMBER, Runs


def ui(
    port: Annotated[
        int | None,
        typer.Option(metavar=NUMBER, help="Port on 127.0.0.1; 0 is any free port. Default: 8642, or any free one."),
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Allow to rename, tag and delete runs in the page.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser of this machine.")] = False,
    runs: Runs = DEFAULT_RUNS,
) -> int:
    """Show all runs, live and past, in the browser.

    Prints the address of the page, which contains a token, and serves it until Ctrl-C.
    """
    from contextlib import suppress
    from pathlib import Path

    from paceline.cli.console import print_message
    from paceline.ui.access import Tokens
    from paceline.ui.serve import listening, page_url, serve

    tokens, listener = Tokens.new(allow_changes=edit), listening(port)
    url = page_url(listener.getsockname()[1], tokens.best)

    def on_start() -> None:
        print(url, flush=True)
        print_message("press Ctrl-C to end; over ssh, forward the port: ssh -L PORT:127.0.0.1:PORT HOST")
        if open_:
            import webbrowser

            webbrowser.open(url)

    with suppress(KeyboardInterrupt):
        serve(Path(runs), tokens, listener, on_start)
    return 0
