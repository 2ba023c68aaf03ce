"""What one would write first: a transfer service on FastAPI, one transaction a request."""
