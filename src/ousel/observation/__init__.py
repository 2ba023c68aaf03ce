"""Watching one process at work: its metrics, its request log, its traces, its admin port."""
