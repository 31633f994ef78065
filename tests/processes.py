"""The command as a process of its own."""

import sys

# Ctrl-C is listened to even where the tests were started by something that ignores it.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
SLENDER = [sys.executable, "-c", f"{LISTEN}; from slender.cli import main; main()"]
