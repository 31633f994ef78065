"""slender export: a model as another tool's file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Json, Quiet
from .output import check_outputs, facts, show, write_json


def export(
    model: Annotated[Path, typer.Argument(help="A model that slender wrote.")],
    to: Annotated[str, typer.Option(help="onnx, sklearn or torch.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The file: .onnx, .joblib (sklearn), .safetensors (torch)."
        ),
    ],
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Write a model for ONNX, scikit-learn or torch."""
    from ..export.files import check_target, write
    from ..export.scoring import linear
    from ..model import load_model, parts_of

    check_target(to, out)
    check_outputs(out, json)
    if out.exists() and out.resolve() == model.resolve():
        raise ValueError(f"--out {out} is the model itself; name another file")
    encoder, fitted = parts_of(load_model(model))
    if encoder is not None:
        raise ValueError(
            f"{model} takes images, and an encoder of images cannot be exported; export a model "
            "fitted to a folder of slender extract"
        )
    form = linear(fitted)
    write(fitted, to, out)
    results: dict[str, Any] = {
        "command": "export",
        "model": str(model),
        "settings": {"to": to},
        "to": to,
        "out": str(out),
        "estimator": type(fitted).__name__,
        "features": form.W.shape[1],
        "classes": len(form.classes),
        "probabilities": form.link is not None,
        "normalize": "l2" if form.normalise else "none",
    }
    write_json(results, json, {"model": (model, model)})
    if not quiet and json != "-":
        show(facts(_lines(results)))


def _lines(results: dict[str, Any]) -> dict[str, str]:
    d, C = results["features"], results["classes"]
    lines = {"model": f"{results['estimator']}, {d:,} features, {C:,} classes"}
    if results["to"] == "onnx":
        outputs = "scores, label" + ", probabilities" * results["probabilities"]
        lines |= {"input": f"X, float32 (n, {d})", "outputs": outputs}
    elif results["to"] == "sklearn":
        lines |= {"note": "a pickle of this scikit-learn's version: load only files you trust"}
    else:
        lines |= {"tensors": f"weight ({C}, {d}), bias ({C},), for torch.nn.Linear({d}, {C})"}
        if results["normalize"] == "l2":
            lines |= {"note": "the layer expects rows of norm 1: torch.nn.functional.normalize(x)"}
    return {**lines, "file": results["out"]}
