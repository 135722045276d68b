"""Other tools' procedures and rules beside ours, one file a kind. benchmarks/peers.py runs them.

docs/explanation/peers.md has the results.
"""
