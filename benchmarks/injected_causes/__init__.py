"""A small package, and the causes that benchmarks/causes.py injects into it."""
