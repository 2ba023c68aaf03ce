"""Accounts: how they are identified, opened, found and frozen."""
