"""Sending money, by partners and by people, and listing what moved."""
