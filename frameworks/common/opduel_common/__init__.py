"""What adaptors share: values of inputs (values.py) and functions by their dotted names (names.py).

The worker puts this package's folder on the path before it loads an adaptor (harness/worker/main.py, load_adaptor).
It runs inside builds: standard library, and NumPy in values.py; Python 3.6 syntax.
"""
