"""Seconds and memory of work on a device, whose end the clock waits for.

A call that starts work on a GPU returns before the work is done: a clock that did not wait would
measure how fast work is ordered.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from slender.lab.recorder import Stopwatch


def synchronise(device: Any) -> None:
    """Wait for all that was told to a GPU; torch's CPU has done it already."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


class DeviceWatch(Stopwatch):
    """A clock that waits for the device before it starts and before it stops."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.device = device

    def __enter__(self) -> "DeviceWatch":
        synchronise(self.device)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        synchronise(self.device)
        super().__exit__(*exc)


def device_seconds(work: Callable[[], Any], device: Any) -> float:
    """Seconds between two events on the device before and after the work: its own clock."""
    if torch.device(device).type != "cuda":
        began = perf_counter()
        work()
        return perf_counter() - began
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(device):
        before.record()
        work()
        after.record()
    synchronise(device)
    return before.elapsed_time(after) / 1e3


class DevicePeak:
    """The most memory that torch allocated on a GPU during the block, above what it had before.

    `reserved` is what its allocator took from the driver for it, which holds unused pieces too.
    On the CPU torch does not count, and both are None.
    """

    above: int | None = None
    reserved: int | None = None

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> "DevicePeak":
        if torch.device(self.device).type == "cuda":
            synchronise(self.device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)
            self._before = (
                torch.cuda.memory_allocated(self.device),
                torch.cuda.memory_reserved(self.device),
            )
        return self

    def __exit__(self, *exc: object) -> None:
        if torch.device(self.device).type == "cuda":
            synchronise(self.device)
            allocated, reserved = self._before
            self.above = torch.cuda.max_memory_allocated(self.device) - allocated
            self.reserved = torch.cuda.max_memory_reserved(self.device) - reserved


def named(device: Any) -> str:
    """What an estimator's `device` is called: "cpu" there means this machine's own kernels."""
    device = torch.device(device)
    return f"torch:{device}" if device.type == "cpu" else str(device)


def release(device: Any) -> None:
    """Give back what torch keeps for later."""
    if torch.device(device).type == "cuda":
        synchronise(device)
        torch.cuda.empty_cache()


def device_line(device: Any) -> str:
    """What the figures were measured on: the device, torch and its CUDA, Triton."""
    parts = [f"torch {torch.__version__}"]
    if torch.device(device).type == "cuda":
        about = torch.cuda.get_device_properties(device)
        parts = [f"{about.name}, {about.total_memory / 2**30:.0f} GiB", *parts]
        parts.append(f"CUDA {torch.version.cuda}")
    else:
        parts.insert(0, "torch's CPU")
    try:
        import triton

        parts.append(f"Triton {triton.__version__}")
    except ImportError:
        parts.append("no Triton")
    return "; ".join(parts)
