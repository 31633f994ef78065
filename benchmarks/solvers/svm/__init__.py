"""Rivals of the multi-class SVM; the race is benchmarks/svm.py."""
