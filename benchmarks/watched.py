"""A Dask scheduler and its workers as processes that are started again when they end.

What a service manager does: workers can be killed, and so can the scheduler.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PAUSE = 0.05  # seconds between two looks


class Watched:
    """Processes at an address of this machine."""

    def __init__(self, workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self._env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.pause = PAUSE  # seconds before what has ended is started again
        self._stopped = threading.Event()
        self._processes: list[tuple[Sequence[str], subprocess.Popen[bytes]]] = []
        self._start("dask_scheduler", "--port", str(port))
        for _ in range(workers):
            self.start_worker()
        self._watch = threading.Thread(target=self._start_again, daemon=True)
        self._watch.start()

    @property
    def scheduler(self) -> int:
        """Its process."""
        return self._processes[0][1].pid

    @property
    def workers(self) -> list[int]:
        """Their processes."""
        return [process.pid for _, process in self._processes[1:]]

    def wait_for_workers(self, client: Any, seconds: float = 60.0) -> None:
        """Until the scheduler knows all of them, and none that has ended."""
        until = time.monotonic() + seconds
        while True:
            found = client.run(os.getpid, on_error="return").values()
            if sorted(map(str, found)) == sorted(map(str, self.workers)):
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self.workers)} workers are not there")
            time.sleep(PAUSE)

    def start_worker(self) -> None:
        """One more, of one thread."""
        alone = "--nthreads", "1", "--no-nanny", "--death-timeout", "30"
        self._start("dask_worker", self.address, *alone)

    def stop(self) -> None:
        """From now on start nothing again."""
        self._stopped.set()
        self._watch.join()

    def end(self) -> None:
        self.stop()
        for _, process in self._processes:
            process.kill()
            process.wait()

    def _start(self, module: str, *options: str) -> None:
        here = "--host", "127.0.0.1", "--no-dashboard"
        command = sys.executable, "-m", f"distributed.cli.{module}", *options, *here
        self._processes.append((command, self._run(command)))

    def _run(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        silent = subprocess.DEVNULL
        return subprocess.Popen(command, env=self._env, stdout=silent, stderr=silent)

    def _start_again(self) -> None:
        while not self._stopped.wait(self.pause):
            for place, (command, process) in enumerate(self._processes):
                if process.poll() is not None:
                    self._processes[place] = command, self._run(command)


@contextmanager
def watched(workers: int) -> Iterator[Watched]:
    """So many workers of one thread, and their scheduler."""
    processes = Watched(workers)
    try:
        yield processes
    finally:
        processes.end()
