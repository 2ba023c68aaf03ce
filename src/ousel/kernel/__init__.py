"""Settings, money, identifiers, time and errors: pure functions that everything else uses."""
