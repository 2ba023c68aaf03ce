"""Measurements: `make bench` prints them as ratios taken in one run."""
