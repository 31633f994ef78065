"""docs/benchmarks.md is made from results files, and from nothing else."""

import json
import sys
from pathlib import Path

import pytest
from benchmarks import command, tables
from typer import Typer
from typer.testing import CliRunner

from slender.cli import main as slender

ROOT = Path(__file__).resolve().parent.parent


def run(*words):
    app = Typer()
    app.command()(tables.main)
    return CliRunner().invoke(app, [str(word) for word in words])


def written(path, name="svm", **more):
    """The document of a run that told one table and two sentences."""
    benchmark = command.Benchmark(name, path)
    benchmark.tell(command.table("Seconds", ("", "a | b"), [("larank", "1.25"), ("theirs", "3")]))
    benchmark.tell("first thing.", "second  thing.")
    benchmark.save({"runs": [1, 2, 3], **more})
    return path


def test_the_page_is_what_the_results_say():
    documents = [tables.load(path) for path in sorted(tables.RESULTS.glob("*.json"))]
    assert len(documents) > 10
    made = (ROOT / "docs" / "benchmarks.md").read_text()
    assert made == tables.page(documents), "edited by hand? run python -m benchmarks.tables"


def test_a_document_becomes_a_table_with_its_command_machine_and_date(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "called", lambda: "python -m benchmarks.svm --repeats 3")
    file = written(tmp_path / "svm.json")
    assert run(file, "--out", tmp_path / "page.md").exit_code == 0
    page = (tmp_path / "page.md").read_text()
    assert "## The SVM and the published optimisers" in page
    assert "### The multi-class SVM, slender's dual solvers against LIBLINEAR\n" in page
    assert "|  | a \\| b |\n| --- | --- |\n| larank | 1.25 |\n| theirs | 3 |" in page
    assert "- first thing.\n- second thing." in page
    assert "```sh\npython -m benchmarks.svm --repeats 3\n```" in page
    about = json.loads(file.read_text())["machine"]
    for fact in (about["processor"], f"numpy {about['numpy']}", about["date"][:10]):
        assert fact in page
    assert "Low rank" not in page  # nothing was measured there


def test_an_unknown_benchmark_is_not_left_out(tmp_path):
    page = tables.page([tables.load(written(tmp_path / "new.json", "something new"))])
    assert "## Others" in page
    assert "| larank | 1.25 |" in page


def test_a_page_is_made_where_a_benchmarks_packages_are_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "benchmarks.gpu", raising=False)
    page = tables.page([tables.load(written(tmp_path / "gpu.json", "gpu"))])
    assert "### On a GPU, against scikit-learn, torch and cuML there\n" in page
    assert "| larank | 1.25 |" in page


def test_the_command_is_kept_without_where_its_results_go(monkeypatch):
    words = ["x.py", "--json", "a b.json", "--datasets", "tiny,digits", "--resume", "--json=c.json"]
    words += ["--cache", "kept", "--cache=kept"]
    monkeypatch.setattr("sys.argv", words)
    assert command.called() is None  # pytest runs, not a benchmark
    main = type("module", (), {"__spec__": type("spec", (), {"name": "benchmarks.__main__"})})
    monkeypatch.setitem(command.sys.modules, "__main__", main)
    assert command.called() == "python -m benchmarks --datasets tiny,digits"


def test_a_comparison_of_the_command_is_a_results_file_too(tmp_path):
    file = tmp_path / "compare.json"
    words = ["compare", "--opt", "sgd,bcfw", "--obj", "svm", "--dataset", "tiny", "--passes", "1"]
    with pytest.raises(SystemExit) as exit_code:
        slender([*words, "--json", str(file), "--quiet"])
    assert not exit_code.value.code
    page = tables.page([tables.load(file)])
    assert f"```sh\nslender {' '.join(words)} --quiet\n```" in page
    summary = json.loads(file.read_text())["summary"]
    for row in summary:
        assert f"| {row['opt']} | {row['objective']['mean']:.5g} |" in page


def test_kept_files_have_no_raw_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    page = tmp_path / "page.md"
    assert run(written(tmp_path / "svm.json"), "--keep", "--out", page).exit_code == 0
    kept = json.loads((tmp_path / "kept" / "svm.json").read_text())
    assert "report" in kept
    assert "runs" not in kept
    first = page.read_text()
    assert run("--out", page).exit_code == 0  # from the kept files alone
    assert page.read_text() == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("figures: 1", "no JSON document"),
        ("[]", "no JSON document"),
        ('{"benchmark": "svm", "version": "0"}', "lacks report, machine"),
        (
            '{"benchmark": "b", "version": "0", "machine": {}, "report": {}, "quick": true}',
            "trial run",
        ),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "file.json").write_text(text)
    said = run(tmp_path / "file.json", "--out", tmp_path / "page.md")
    assert said.exit_code == 2
    assert message in " ".join(said.stderr.replace("│", " ").split())
    assert not (tmp_path / "page.md").exists()


def test_a_resumed_document_keeps_what_was_told_of_other_data(tmp_path):
    file = tmp_path / "results.json"

    def report(name, found):
        return [f"{name} took {found['seconds']} s"]

    def work(seconds):
        return lambda name, dataset, say: {"seconds": seconds}

    def document(datasets, seconds, options, resume):
        benchmark = command.Benchmark("test", file, quick=True, resume=resume)
        benchmark.over(datasets, options, work(seconds), report, lambda all_of: [f"{len(all_of)}"])
        told = json.loads(file.read_text())["report"]
        return {
            part: [line for line in of if "other proc" not in line] for part, of in told.items()
        }

    document("tiny", 1, {}, False)
    told = document("digits", 2, {}, True)
    assert told == {"tiny": ["tiny took 1 s"], "digits": ["digits took 2 s"], "": ["1"]}
    told = document("tiny,digits", 3, {"other": 1}, True)
    assert told == {"tiny": ["tiny took 3 s"], "digits": ["digits took 3 s"], "": ["2"]}
