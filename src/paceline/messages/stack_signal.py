"""The signal with which an agent asks a task to write its stacks to a file."""

import signal

DUMP_SIGNAL = getattr(signal, "SIGUSR2", None)
"""None on a system without SIGUSR2, where only process states are known."""
