"""Passkeys: their public keys, the challenges that they answer, and the check of the answers."""
