"""The papers' figures and claims, measured again: `slender reproduce`.

base.py says what an experiment is, catalogue.py lists them, carrying_out.py runs and writes them.
"""
