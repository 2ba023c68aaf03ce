"""The lab of a sandbox: it disturbs the calls of an app, records them and grades the app."""
