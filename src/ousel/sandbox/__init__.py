"""The sandbox: what a test needs and a live server never offers."""
