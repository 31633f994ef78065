"""python -m benchmarks.fisher: from images to vectors, against OpenCV, skimage and raw pixels.

    sift        dense SIFT against OpenCV's SIFT at the same places, of the same size and smoothing
    encoding    descriptors to one Fisher vector, against skimage.feature.fisher_vector
    images      files to vectors, images per second and core: 300 pixels, step 4, four scales
    memory      the most that a worker has resident, with an image of twelve million pixels
    accuracy    SLNDClassifier on Fisher vectors against the same on 32 x 32 pixels

Images are the photographs under $SLENDER_DATA/photos (train/ and test/, a folder for each class),
or generated stripes where there are none.  Everything but the accuracy is measured on one thread.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from rich.table import Table

from slender.lab.repeats import ranged

from . import command, machine
from . import fisher_measures as measures
from .memory import verdict

PARTS = ("sift", "encoding", "images", "memory", "accuracy")
GAUSSIANS = (16, 256)
N_IMAGES, QUICK_IMAGES = 60, 4
MEMORY_ALLOWED = 600 * 10**6  # bytes of a worker, all that it has
NEEDS = {"sift": ("cv2", "opencv-python-headless"), "encoding": ("skimage", "scikit-image")}
PACKAGES = ("opencv-python-headless", "scikit-image", "scikit-learn", "pillow")


def sift_table(found: dict[str, Any]) -> Table:
    rows = [
        (
            "all" if cell == "0" else f"{cell} pixels a cell",
            f"{of['descriptors']:,}",
            ranged(of["microseconds"]),
            ranged(of["opencv"], 1),
            ranged(of["faster"], 0),
            "" if of["correlation"] is None else f"{of['correlation']:.4f}",
        )
        for cell, of in found["scales"].items()
    ]
    columns = ("scale", "descriptors", "µs each", "OpenCV's", "faster by", "correlation")
    height, width = found["image"]
    return command.table(f"SIFT, an image of {width} × {height}, one thread", columns, rows)


def encoding_table(found: list[dict[str, Any]]) -> Table:
    rows = [
        (
            f"{of['K']} Gaussians, {side}",
            ranged(of["seconds"][side], 2, 1e3),
            ranged(of["faster"][side], 1),
            f"{of['apart']:.0e}",
        )
        for of in found
        for side in of["seconds"]
    ]
    columns = ("", "milliseconds", "of slender's", "slender apart from skimage")
    n = found[0]["descriptors"]
    return command.table(f"One image, {n:,} descriptors of 64 numbers, one thread", columns, rows)


def images_lines(found: dict[str, Any]) -> list[str]:
    return [
        f"{found['images']} images of {found['pixels']:,.0f} pixels on average, {jobs} at a time: "
        f"{ranged(found[f'per_core_{jobs}'], 1)} images per second and core"
        for jobs in sorted({1, found["cores"]})
    ]


def memory_lines(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"a worker with {of['K']} Gaussians, max_size={size}: {verdict(peak, MEMORY_ALLOWED)}"
        for of in found
        for size, peak in of["peaks"].items()
    ]


def accuracy_lines(found: dict[str, Any]) -> list[str]:
    n, n_test, C = found["shape"]
    of = {side: ranged(top1, 1) for side, top1 in found["top1"].items()}
    return [
        f"{found['data']}, {n:,} + {n_test:,} images, {C} classes: "
        f"top-1 {of['Fisher vectors']} % on Fisher vectors, {of['pixels']} % on "
        f"{measures.RAW} × {measures.RAW} pixels, {ranged(found['above'], 1)} points more"
    ]


def main(
    only: Annotated[str, typer.Option(help="Parts, separated by commas.")] = ",".join(PARTS),
    repeats: command.Repeats = 5,
    json_file: command.Json = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few small images, one repeat. Not a figure.")
    ] = False,
) -> None:
    """Fisher vectors of images: speed, memory and accuracy."""
    chosen = command.names(only, PARTS, "part")
    gaussians, n = (GAUSSIANS[:1], QUICK_IMAGES) if quick else (GAUSSIANS, N_IMAGES)
    repeats = 1 if quick else repeats
    benchmark = command.Benchmark("fisher", json_file, quick, packages=PACKAGES)
    results: dict[str, Any] = {}

    def say(line: str) -> None:
        command.say(line, "fisher")

    with measures.photos(quick) as photos:
        work: dict[str, Callable[[], Any]] = {
            "sift": lambda: measures.race_sift(photos, repeats, say),
            "encoding": lambda: [
                measures.race_encoding(photos, K, repeats, say) for K in gaussians
            ],
            "images": lambda: measures.race_images(photos, n, repeats, say),
            "memory": lambda: [measures.memory(photos, K) for K in gaussians],
            "accuracy": lambda: measures.accuracy(photos, repeats, say),
        }
        reports: dict[str, Callable[[Any], list[Any]]] = {
            "sift": lambda found: [sift_table(found)],
            "encoding": lambda found: [encoding_table(found)],
            "images": images_lines,
            "memory": memory_lines,
            "accuracy": accuracy_lines,
        }
        for part in chosen:
            if part in NEEDS and find_spec(NEEDS[part][0]) is None:
                command.show(f"{part} is skipped: pip install {NEEDS[part][1]}")
                continue
            with machine.Neighbours() as others:
                found = work[part]()
            results[part] = {"others": others.cores, "found": found}
            quiet = part in ("memory", "accuracy", "images")  # other processes are its own
            disturbed = [] if quiet else machine.disturbed(part, others.cores)
            benchmark.tell(*reports[part](found), *disturbed)
            benchmark.save({"data": photos.name, **results})


if __name__ == "__main__":
    typer.run(main)
