"""A package of our own, and causes of slowness that are injected into it, for benchmarks/causes.py."""
