"""Benchmarks: each kernel beside its peers in one run, as ratios."""
