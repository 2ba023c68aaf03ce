"""Charges: a partner asks for an amount, and a payer pays it on a hosted checkout page."""
