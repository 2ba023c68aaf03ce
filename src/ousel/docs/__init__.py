"""The documentation: documents rendered from Markdown, and the API reference."""
