"""Partner applications: apps, keys, origins and redirect URIs."""
