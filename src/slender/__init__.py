"""slender: linear classifiers with thousands of classes, fitted in seconds.

Public names are loaded on first use (PEP 562), so that `import slender` takes milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import ESTIMATORS

__version__ = "0.1.0"

_HOME = {  # public name -> the module it is in
    **{name: estimator.module for name, estimator in ESTIMATORS.items()},
    "CompressedMatrix": "compress.matrix",
    "FisherVectorizer": "features.fisher",
    "on_workers": "data.dask",
    "ProductQuantizer": "compress.quantizer",
    "RowStore": "stores.store",
    "UnitRows": "estimators.preprocessing",
    "load_model": "model",
    "num_threads": "rows.cores",
    "open_rows": "stores.opening",
    "save_model": "model",
    "set_num_threads": "rows.cores",
}
__all__ = [*sorted(_HOME), "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from .compress.matrix import CompressedMatrix as CompressedMatrix
    from .compress.quantizer import ProductQuantizer as ProductQuantizer
    from .data.dask import on_workers as on_workers
    from .estimators.bcfw import BCFWClassifier as BCFWClassifier
    from .estimators.gd import GDClassifier as GDClassifier
    from .estimators.larank import LaRankClassifier as LaRankClassifier
    from .estimators.logistic import LogisticClassifier as LogisticClassifier
    from .estimators.olbfgs import OLBFGSClassifier as OLBFGSClassifier
    from .estimators.preprocessing import UnitRows as UnitRows
    from .estimators.probe import LinearProbe as LinearProbe
    from .estimators.sgd import SGDClassifier as SGDClassifier
    from .estimators.sgdqn import SGDQNClassifier as SGDQNClassifier
    from .estimators.slnd import SLNDClassifier as SLNDClassifier
    from .estimators.tracenorm import TraceNormClassifier as TraceNormClassifier
    from .estimators.tracenorm_probe import TraceNormProbe as TraceNormProbe
    from .features.fisher import FisherVectorizer as FisherVectorizer
    from .model import load_model as load_model
    from .model import save_model as save_model
    from .rows.cores import num_threads as num_threads
    from .rows.cores import set_num_threads as set_num_threads
    from .stores.opening import open_rows as open_rows
    from .stores.store import RowStore as RowStore


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'slender' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
