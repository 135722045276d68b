"""A package of our own, and causes of slowness that are injected into it: what benchmarks/causes.py builds and judges."""
