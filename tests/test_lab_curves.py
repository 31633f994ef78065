"""Curves, repeats and ledgers: what experiments and benchmarks say together, worked by hand."""

import json

import numpy as np
import pytest

from slender.lab.curves import best, column, first_below, medians, seconds_to
from slender.lab.ledger import Ledger, ledger_file
from slender.lab.repeats import by_turns, ranged, ratios, spread, try_each
from slender.storage import FileError

CURVE = [
    {"seconds": 1.0, "objective": 4.0, "top1": 0.2},
    {"seconds": 2.0, "objective": 2.0, "top1": 0.6},
    {"seconds": 3.0, "objective": 3.0, "top1": 0.5},
]


def test_a_target_is_reached_at_the_first_point_that_is_there():
    assert first_below(CURVE, "objective", 3.0) == 1
    assert seconds_to(CURVE, "objective", 3.5) == 2.0
    assert seconds_to(CURVE, "objective", 1.9) is None
    assert first_below(CURVE, "objective", 1.9) is None
    assert seconds_to(CURVE, "top1", 0.5, rising=True) == 2.0
    assert (best(CURVE, "objective"), best(CURVE, "top1", rising=True)) == (2.0, 0.6)


def test_a_figure_that_a_point_lacks_is_nan():
    assert np.array_equal(column([{"a": 1}, {"a": None}, {}], "a"), [1, np.nan, np.nan], True)


def test_medians_stop_with_the_shortest_line():
    lines = [(np.arange(3.0), np.array(y, float)) for y in ([1, 5, 9], [3, 6, 7])]
    short = np.arange(2.0), np.array([2.0, 1.0])
    *each, middle = medians([*lines, short])
    assert [line.shape for line in each] == [(2, 2)] * 3
    assert middle.tolist() == [[0, 1], [2, 5]]


def test_sides_take_turns_and_may_sit_out():
    order, said = [], []

    def side(name, sits_out=()):
        def run(seed):
            order.append((seed, name))
            return None if seed in sits_out else {"seconds": float(seed)}

        return run

    runs = by_turns({"a": side("a"), "b": side("b", {2})}, [1, 2, 3], said.append)
    assert order == [(seed, name) for seed in (1, 2, 3) for name in "ab"]
    assert [run["seconds"] for run in runs["b"]] == [1.0, 3.0]
    assert said[:2] == ["repeat 1 of 3: a", "repeat 1 of 3: b"]


def test_the_first_of_the_cheapest_settings_is_chosen():
    tried, place = try_each([3, -2, 2, 5], lambda setting: setting**2, lambda run: run)
    assert (tried, place) == ([9, 4, 4, 25], 1)


def test_spreads_and_ratios_of_the_same_turn():
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0}
    theirs, ours = ([{"seconds": s} for s in of] for of in ((8.0, 3.0), (2.0, 1.0)))
    assert ratios(theirs, ours) == {"median": 3.5, "min": 3.0, "max": 4.0}
    assert ranged(spread([0.5, 0.25]), 1, scale=100) == "37.5 (25.0–50.0)"
    assert ranged(None) == "never"


def test_a_ledger_knows_a_run_by_all_that_was_asked(tmp_path):
    path = tmp_path / "new" / "runs.json"
    ledger = ledger_file(path, ("C", "rows"))
    ledger.add({"C": 1.0, "rows": 10, "seconds": 2.5})
    again = ledger_file(path, ("C", "rows"))
    assert again.get({"C": 1.0, "rows": 10})["seconds"] == 2.5
    assert again.get({"C": 1.0, "rows": 11}) is None
    assert Ledger(("C",)).get({"C": 1.0}) is None
    edited = json.loads(path.read_text())
    edited["runs"][0]["seconds"] = 0.1
    path.write_text(json.dumps(edited))
    with pytest.raises(FileError, match="not a ledger as slender wrote it"):
        ledger_file(path, ("C", "rows"))
    path.write_text("[1]")
    with pytest.raises(FileError, match="remove it to begin anew"):
        ledger_file(path, ("C", "rows"))
