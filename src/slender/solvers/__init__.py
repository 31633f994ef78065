"""Solvers: frozen settings, a state of arrays, a kernel; one file each, one outer loop."""
