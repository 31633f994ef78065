"""Rows of norm 1, made so on the fly."""

import numpy as np

from .base import ChangedRows
from .block import Block


class NormalisedRows(ChangedRows):
    """Row i is x_i / ‖x_i‖; a row of zeros stays zero."""

    def changed(self, block: Block) -> Block:
        norms = np.sqrt(block.row_squares())
        return block.times_rows(np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 0))
