"""Code that the adaptors share: arguments of cases, functions by their dotted names, and results in files.

The worker puts this package's folder on the path, loads an adaptor's folder as a package (harness/worker/main.py,
load_adaptor) and calls the functions of its ``__init__.py``. Both run inside builds: standard library, the framework,
NumPy where the build has it, and Python 3.6 syntax.
"""
