"""Functions of any Python package: those that a spec names by their dotted names."""
