"""The server of `paceline run --ui`: prints its address, and ends when its stdin closes, however its parent ends."""

import os
import sys
import threading
from pathlib import Path

from paceline.ui.access import Tokens
from paceline.ui.serve import listening, page_url, serve


def main() -> None:
    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    tokens, listener = Tokens.new(), listening(None)
    threading.Thread(target=end_with_parent, daemon=True).start()
    url = page_url(listener.getsockname()[1], tokens.read, "latest")
    serve(Path(sys.argv[1]), tokens, listener, lambda: print(url, flush=True))


if __name__ == "__main__":
    main()
