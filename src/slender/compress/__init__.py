"""Product quantisation: rows as codes, 64 times smaller, for fitting and predicting."""

from .matrix import CompressedMatrix
from .quantizer import ProductQuantizer

__all__ = ["CompressedMatrix", "ProductQuantizer"]
