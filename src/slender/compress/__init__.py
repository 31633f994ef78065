"""Product quantisation: rows as codes, 64 times smaller, that train and predict as they are."""

from .matrix import CompressedMatrix
from .quantizer import ProductQuantizer

__all__ = ["CompressedMatrix", "ProductQuantizer"]
