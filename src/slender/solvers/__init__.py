"""Solvers, one file each: frozen settings, a state of arrays, a kernel; loop.py runs them all."""
