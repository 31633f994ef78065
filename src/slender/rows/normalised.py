"""Rows of norm 1, scaled when they are read."""

import numpy as np

from .base import ChangedRows
from .block import Block


class NormalisedRows(ChangedRows):
    """Row i is x_i / ‖x_i‖; all-zero rows stay zero."""

    def changed(self, block: Block) -> Block:
        norms = np.sqrt(block.row_squares())
        return block.times_rows(np.divide(1.0, norms, out=np.ones_like(norms), where=norms > 0))
