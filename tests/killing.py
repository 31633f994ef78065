"""An extraction is killed before each thing that it does to a file, and given again.

A script, which forks: test_extraction.py runs it as `python killing.py IMAGES FOLDER MODEL.onnx`,
or with `fisher` instead of the model.  SIGKILL leaves no time to tidy up, so nothing but a real one
will do.
"""

import os
import random
import shutil
import signal
import sys
from pathlib import Path

from sklearn.mixture import GaussianMixture

from slender.features import folder as output
from slender.features.extraction import extract
from slender.registry import ENCODERS

# What Python tells before it happens (sys.audit), and what is called here.
KILLS = 20
EVENTS = {"os.mkdir", "os.rename", "os.remove", "os.truncate"}
SMALL = {"n_gaussians": 2, "n_components": 4, "scales": (4,), "step": 8, "descriptors": 500}


def encoder(kind):
    if kind == "fisher":
        return ENCODERS["fisher"].load()(random_state=0, **SMALL)
    return ENCODERS["onnx"].load()(kind, mean=(0.5,) * 3, std=(0.5,) * 3, batch_size=3)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class Countdown:
    """SIGKILL for this process at the k-th event."""

    def __init__(self, k):
        self.left = k
        sys.addaudithook(self.heard)
        os.fsync = lambda file: self.event()  # which a process need not wait for to survive it
        fit = GaussianMixture.fit

        def fitted(*given):
            self.event()
            made = fit(*given)
            self.event()
            return made

        GaussianMixture.fit = fitted

    def event(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(self, name, args):
        written = (
            name == "open" and isinstance(args[2], int) and args[2] & (os.O_RDWR | os.O_WRONLY)
        )
        if name in EVENTS or written:
            self.event()


def killed(images, out, kind, k):
    """Extract in another process; was it killed at the k-th event?"""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Countdown(k)
            extract(images, out, encoder(kind))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def main(images, folder, kind):
    output.WAIT_SECONDS = 0.0  # so that every chunk is kept
    whole = folder / "whole"
    extract(images, whole, encoder(kind))  # here: what is imported and compiled need not be again
    wanted = contents(whole)
    events = 0
    while killed(images, folder / "out", kind, events + 1):  # a new folder for each
        events += 1
        assert not killed(images, folder / "out", kind, -1)
        assert contents(folder / "out") == wanted, f"killed at event {events}"
        shutil.rmtree(folder / "out")
    kills, rng = 0, random.Random(0)
    while kills < KILLS and killed(images, folder / "again", kind, rng.randint(1, events // 2)):
        kills += 1
    assert not killed(images, folder / "again", kind, -1)
    assert contents(folder / "again") == wanted
    sys.stdout.write(f"{events} events, {kills} kills in one folder\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
