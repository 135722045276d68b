"""Why cases changed: what is looked at on both sides, after all measuring."""
