"""The reference: a conventional transfer service on FastAPI, one transaction per request."""
