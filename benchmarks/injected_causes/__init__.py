"""A package of our own, and causes that are injected into it: what benchmarks/causes.py builds and judges."""
