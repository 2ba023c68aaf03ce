"""Emails: confirming that an email belongs to the holder of an account."""
