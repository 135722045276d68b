"""Why changed cases changed: ``find_causes`` adds a cause to the comparisons of a run, after its verdicts.

``collectors`` ask fresh processes of both sides: about native and Python functions, primitives, kernels, the machine
and the libraries around. ``attribution`` and ``wording`` are pure: which parts of a call account for the change, and
the sentence that says so. The harness calls this package through ``RunRequest.find_causes``, and nothing imports it but
the command that sets that.
"""

from opduel.causes.annotator import find_causes

__all__ = ["find_causes"]
