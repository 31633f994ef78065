"""Rivals of the trace norm; the race is benchmarks/tracenorm.py."""
