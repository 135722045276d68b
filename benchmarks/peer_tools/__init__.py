"""Procedures and rules of other tools; benchmarks/peers.py runs them, docs/explanation/peers.md has results."""
