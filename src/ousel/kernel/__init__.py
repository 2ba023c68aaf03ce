"""Settings, money, ids, time, errors, files, futures and threads, which all other packages use."""
