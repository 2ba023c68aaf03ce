"""Ousel: a payments service that anyone can host."""
