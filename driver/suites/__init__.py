"""Suites of benchmarks that somebody else wrote: found, taken at a commit, asked for what they have, and made ready."""
