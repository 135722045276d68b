"""Opduel's own benchmarks, in asv's form: what it costs beside the calls that it measures."""
