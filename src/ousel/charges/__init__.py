"""Charges: a partner asks for an amount, a payer pays it, and both can trust the outcome."""
