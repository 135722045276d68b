"""Benchmarks of asv suites: discovered, and run, with the package asv_runner in each build."""
