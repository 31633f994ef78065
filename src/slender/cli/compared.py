"""What slender compare found, in tables and sentences."""

from typing import Any

from .output import columns

COLUMNS = {  # heading -> name in a row of the summary, format
    "objective": ("objective", ".5g"),
    "gap": ("gap", ".1e"),
    "train": ("train_accuracy", ".4f"),
    "validation": ("validation_accuracy", ".4f"),
    "test": ("test_accuracy", ".4f"),
    "test top-5": ("test_top5", ".4f"),
    "seconds": ("seconds", ".3f"),
    "passes": ("passes", "g"),
}
SIZES = {
    "rows": ("size", ",d"),
    "seconds": ("seconds", ".3f"),
    "test error": ("error", ".4f"),
    "above the best": ("excess", ".4f"),
    "PR area": ("pr_area", ".4f"),
}


def report(results: dict[str, Any]) -> list[Any]:
    """A document of this command in tables and sentences."""
    things: list[Any] = []
    for dataset, facts in results["datasets"].items():
        rows = [row for row in results["summary"] if row["dataset"] == dataset]
        if not rows:
            continue
        title = (
            f"{dataset}: {facts['train']:,} training, {facts['validation']:,} validation, "
            f"{facts['test']:,} test rows x {facts['features']:,}, {facts['classes']} classes"
        )
        if results["large_scale"]:
            things += [title, *_scaling(results["large_scale"][dataset]), ""]
            continue
        things.append(title)
        for problem in dict.fromkeys(row["problem"] for row in rows):
            mine = [row for row in rows if row["problem"] == problem]
            things += [f"  {problem}", columns(mine, {"": ("opt", ""), **COLUMNS})]
        things.append("")
    for choice in results["choices"]:
        size = "" if choice["size"] is None else f", {choice['size']:,} rows"
        edge = ", the last one tried: give --rates a wider range" if choice["at_edge"] else ""
        things.append(
            f"{choice['opt']} on {choice['dataset']}{size}: first step {choice['chosen']:.3g}, "
            f"the best of {len(choice['rates'])}{edge}"
        )
    return things


def _scaling(of: dict[str, Any]) -> list[Any]:
    things: list[Any] = []
    binary = any(p["pr_area"]["mean"] is not None for c in of["contenders"] for p in c["points"])
    heads = {name: head for name, head in SIZES.items() if binary or name != "PR area"}
    for each in of["contenders"]:
        effort = "-" if each["effort"] is None else f"{each['effort']:.2f}"
        area = "-" if each["au_time"] is None else f"{100 * each['au_time']:.2f} %"
        line = f"  {each['opt']} {each['obj']}: seconds ~ rows^{effort}, AuTime {area}"
        if each["au_time_pr"] is not None:
            line += f", AuTime of 1 - PR area {100 * each['au_time_pr']:.2f} %"
        things += [line, columns(each["points"], heads)]
    things.append(
        f"  best achieved by any optimiser at any size: {100 * of['best_error']:.2f} %, which "
        "stands for the best achievable"
    )
    return things
