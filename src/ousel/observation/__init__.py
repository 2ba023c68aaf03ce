"""Observing one process: metrics, request log, traces and the admin port."""
