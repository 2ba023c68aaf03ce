"""Observing one process: metrics, request log, traces and the admin port.

- what is set up: `telemetry`
- metrics: `metrics`, `histograms`, `gauges`, `prometheus`, `admin`
- logs and traces: `logs`, `log_output`, `request_log`, `spans`
"""
