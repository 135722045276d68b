"""Hostile input for the commands: what benchmarks/hostile.py tries, and how."""
