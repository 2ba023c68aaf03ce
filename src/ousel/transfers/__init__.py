"""Moving money from the key owner to a recipient, and listing what moved."""
