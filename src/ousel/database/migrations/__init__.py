"""The schema's history, forward only; run by `ousel migrate`."""
