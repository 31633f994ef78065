"""Triton kernels run on the CPU by Triton's interpreter, in a process of its own.

Triton decides when it is imported whether it interprets; here it may have been imported before.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


class Interpreter:
    """interpreter(function, *arguments): the result of the call in that process."""

    def __init__(self):
        before = os.environ.get("TRITON_INTERPRET")
        os.environ["TRITON_INTERPRET"] = "1"
        try:
            self.pool = ProcessPoolExecutor(1, get_context("spawn"))
            assert self.pool.submit(os.getenv, "TRITON_INTERPRET").result() == "1"
        finally:
            del os.environ["TRITON_INTERPRET"]
            if before is not None:
                os.environ["TRITON_INTERPRET"] = before

    def __call__(self, function, *arguments):
        return self.pool.submit(function, *arguments).result()

    def close(self):
        self.pool.shutdown()
