"""The controller's end of workers: starting, asking, waiting, replacing, and how they fail."""
