"""Every estimator is fitted, then fitted again by forked processes.  A script: pytest's own process
has threads of many libraries; test_threads.py runs it as `python forking.py`.
"""

import multiprocessing
import sys
import threading
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_info

import slender
from slender.registry import ESTIMATORS
from slender.rows import one_blas_thread, threads

SETTINGS = {
    "BCFWClassifier": {"tol": None},
    "LinearProbe": {"Cs": 3},
    "TraceNormProbe": {"n_lambda1": 2, "n_lambda2": 2},
}
SECONDS = 120  # more than any fit takes, its compilation included

rng = np.random.default_rng(0)
y = np.arange(400) % 4
X = rng.standard_normal((4, 16))[y] + rng.standard_normal((400, 16))


def fitted(name):
    model = getattr(slender, name)(random_state=0, **SETTINGS.get(name, {})).fit(X, y)
    return model.coef_ if hasattr(model, "coef_") else model.transform(X).toarray()


def blas():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def forked(work):
    """Raise if a forked process that does the work dies or hangs."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(SECONDS)
    if child.is_alive():
        child.kill()
        sys.exit("it hangs")
    if child.exitcode:
        sys.exit(f"it ended with {child.exitcode}")


def main():
    slender.set_num_threads(2)
    threads.CACHE_BYTES, threads.WORTH_A_PART, threads.WORTH_A_THREAD = 10_000, 1, 1
    names = [*ESTIMATORS, *(["ProductQuantizer"] if find_spec("faiss") else [])]
    wanted = {name: fitted(name) for name in names}
    before = blas()

    for name in names:
        sys.stderr.write(f"{name}\n")  # the last one is the one that failed
        forked(lambda name=name: np.testing.assert_array_equal(fitted(name), wanted[name]))

    sys.stderr.write("while another thread holds BLAS to one thread\n")
    inside, done = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            inside.set()
            done.wait()

    def check():
        assert blas() == before, (blas(), before)
        np.testing.assert_array_equal(fitted("LogisticClassifier"), wanted["LogisticClassifier"])
        assert blas() == before, (blas(), before)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    try:
        forked(check)
    finally:
        done.set()
        holder.join()
    check()


if __name__ == "__main__":
    main()
