"""Pages for partners and people: signing in, activity, apps, settings."""
