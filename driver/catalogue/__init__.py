"""The catalogue: specs, one for each category, from a build's own registry and rules in data files."""
