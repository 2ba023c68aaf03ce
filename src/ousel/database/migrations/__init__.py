"""The migrations of the schema, which only go forward; `ousel migrate` runs them."""
