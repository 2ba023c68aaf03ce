"""Signing in: passwords, sessions, second factors, failed attempts, and audit events."""
