"""Emails: proofs that an email belongs to the holder of an account."""
