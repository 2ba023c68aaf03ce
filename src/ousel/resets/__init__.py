"""Links that set a new password."""
