"""The framework of the pages: visits, sessions' cookies, forms, templates, static files."""
