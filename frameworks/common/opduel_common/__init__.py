"""Code that the adaptors share: arguments of cases, functions by their dotted names, and results in files.

The worker puts this package's folder on the path before it loads an adaptor (harness/worker/main.py, load_adaptor).
It runs inside builds: standard library, NumPy where the build has it, and Python 3.6 syntax.
"""
