"""Data sets: one registry of what is known of each, readers, and downloads that are asked for.

`load` gives vectors, `load_images` files and classes, `named` the entry of the registry, whose
`check` says if it is complete.  Nothing is ever downloaded but by `slender datasets get`.
"""

from .catalogue import DATASETS, extract_first, folder, is_name, load, load_images, named
from .folders import holds_images, parts_of
from .images import ImageSet
from .known import Entry, ImageCollection, MissingDataError, Report, Size, VectorSet
from .made import digits, low_rank, planted
from .vectors import Dataset, first_rows

__all__ = [
    "DATASETS",
    "Dataset",
    "Entry",
    "ImageCollection",
    "ImageSet",
    "MissingDataError",
    "Report",
    "Size",
    "VectorSet",
    "digits",
    "extract_first",
    "first_rows",
    "folder",
    "holds_images",
    "is_name",
    "load",
    "load_images",
    "low_rank",
    "named",
    "parts_of",
    "planted",
]
