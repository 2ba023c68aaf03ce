"""The framework for pages: visits, cookies, forms, templates, static files."""
