"""Apache MXNet: its fixed environment (framework.py) and its operators as the worker runs them (adaptor/)."""
