"""Benchmarks: `make bench` prints ratios that were measured in one run."""
