"""The documentation: documents rendered from Markdown, and the reference of the API."""
