"""Every experiment by name.  A new one is three functions, an Experiment, and a line here."""

from difflib import get_close_matches

from .base import Experiment
from .complexity import COMPLEXITY
from .larank import REPROCESS
from .onepass import ONEPASS
from .orders import ORDERS, PREPROCESSING
from .practical import BCFW, GD, MU
from .sizes import SIZES
from .slnd_losses import LOSSES
from .slnd_passes import PASSES, TIME
from .slnd_settings import EIGENVALUES, RANKS, SAMPLES
from .slnd_theory import LEMMA1, THEOREM2
from .slnd_transfer import TRANSFER
from .trace import CLASSES, SPECTRUM
from .trace_codes import COMPRESSION, PRODUCT_TIMES
from .trace_quoted import ACCURACIES

EXPERIMENTS: tuple[Experiment, ...] = (
    LOSSES,
    EIGENVALUES,
    RANKS,
    SAMPLES,
    PASSES,
    TIME,
    THEOREM2,
    LEMMA1,
    TRANSFER,
    REPROCESS,
    ORDERS,
    PREPROCESSING,
    ONEPASS,
    SIZES,
    GD,
    BCFW,
    MU,
    COMPLEXITY,
    SPECTRUM,
    CLASSES,
    COMPRESSION,
    PRODUCT_TIMES,
    ACCURACIES,
)


def experiment(name: str) -> Experiment:
    """The one of this name, or with this alias."""
    known = {word: each for each in EXPERIMENTS for word in (each.name, *each.aliases)}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    perhaps = f" (did you mean {near[0]}?)" if near else ""
    names = ", ".join(each.name for each in EXPERIMENTS)
    raise ValueError(f"{name} is no experiment{perhaps}; there are {names}")
