"""Signing in: passwords, sessions, second factors, attempts, and what happened."""
