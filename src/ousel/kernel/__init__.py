"""Settings, money, ids, time, errors, files and threads, which all other packages use."""
