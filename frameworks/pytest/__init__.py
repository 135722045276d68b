"""Tests that time a call by the fixture ``benchmark``: collected, and run up to that call, by pytest in each build."""
