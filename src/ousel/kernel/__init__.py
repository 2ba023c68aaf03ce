"""Settings, money, identifiers, time and errors, which all other packages use."""
