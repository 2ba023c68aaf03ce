"""People: how an account is named, opened, looked up and frozen."""
