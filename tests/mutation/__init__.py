"""Mutation testing: small changes to the rules of money, each of which a test must notice."""
