"""Settings, money, ids, time and errors, which all other packages use."""
