"""The composition root: the only place that connects the packages with each other."""
