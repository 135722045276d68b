"""The catalogue: a build's own registry and rules that are data become specs, one a category."""
