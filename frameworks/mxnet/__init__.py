"""Apache MXNet: what the controller knows of it (framework.py), and how the worker runs it (adaptor/)."""
