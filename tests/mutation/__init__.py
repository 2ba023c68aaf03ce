"""Mutation testing: small changes to the rules of money and the ledger, which tests must notice."""
