"""Suites of benchmarks in asv's format: find them, read them at a commit, discover their cases, and prepare them."""
