"""Settings, money, identifiers, time and errors: pure, and the ground everything stands on."""
