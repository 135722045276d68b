"""Which functions a call runs, what they are called, and who calls them from which line: a ``sys.setprofile`` hook.

It is slow, so that its calls are not timed: functions.py times others.  Standard library and Python 3.6 syntax only, as
main.py.
"""

import opcode
import os
import re
import sys
import types
import zlib

OWN = "(the call itself)"  # what the worker and the adaptor execute around the functions of the build
MOST_STACKS = 5000
MOST_OPCODES = 500000
LOOKUPS = frozenset(
    opcode.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR") if name in opcode.opmap
)
BUILT_IN = re.compile(r"<(?:built-in |class )?(?:method|function) '?([^ ']+)'?(?: of '?([^ ']+)'?(?: objects?)?)?>$")


def is_python(code):
    return isinstance(code, types.CodeType)


class Tracer:
    """A ``sys.setprofile`` hook: who calls which function from which line, and what Python functions are called."""

    def __init__(self):
        self.names = {}  # code -> module and qualified name
        self.sites = {}  # callee -> {(caller's code, line): how often}
        self.stacks = {}  # (codes and texts of the callers, outermost first), callee -> how often
        self.in_c = {}  # frame -> text of the function in C that it is in

    def __call__(self, frame, event, function):
        if event == "call":
            callee, caller = frame.f_code, frame.f_back
            if callee not in self.names:
                self.names[callee] = name_of_frame(frame)
        elif event == "c_call":
            callee, caller = text_of(function), frame
            self.in_c.pop(frame, None)
        else:
            self.in_c.pop(frame, None)
            return
        if caller is not None:
            lines = self.sites.setdefault(callee, {})
            line = caller.f_code, caller.f_lineno
            lines[line] = lines.get(line, 0) + 1
            stack = self.callers(caller), callee
            if stack in self.stacks or len(self.stacks) < MOST_STACKS:
                self.stacks[stack] = self.stacks.get(stack, 0) + 1
        if event == "c_call":
            self.in_c[frame] = callee

    def callers(self, frame):
        """The codes from the traced call down to ``frame``, and the functions in C on the way that call back, by their
        texts; of a recursion's levels one."""
        codes = []
        while frame is not None and frame.f_code is not Tracer.run.__code__:
            for code in (self.in_c.get(frame), frame.f_code):
                if code is not None and (not codes or codes[-1] != code):
                    codes.append(code)
            frame = frame.f_back
        return tuple(reversed(codes))

    def run(self, call, number):
        sys.setprofile(self)
        try:
            for _ in range(number):
                call()
        finally:
            sys.setprofile(None)
            self.in_c.clear()

    def site(self, callee, is_own):
        """Where it is mostly called: code and line, or None."""
        lines = [(count, line, code) for (code, line), count in self.sites.get(callee, {}).items() if not is_own(code)]
        if not lines:
            return None
        _, line, code = max(lines, key=lambda count_and_line: count_and_line[:2])
        return code, line


class Opcodes:
    """A ``sys.settrace`` hook: how many instructions of bytecode each code executes. It gives up after
    ``MOST_OPCODES``, as it takes some hundred times as long as they do."""

    def __init__(self):
        self.counts = {}  # code -> [how many, of these such as look up a name]
        self.bytecode = {}
        self.opcodes_left = MOST_OPCODES

    def __call__(self, frame, event, argument):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.count

    def count(self, frame, event, argument):
        if event == "opcode":
            code = frame.f_code
            if code not in self.counts:
                self.counts[code], self.bytecode[code] = [0, 0], code.co_code
            counts = self.counts[code]
            counts[0] += 1
            counts[1] += self.bytecode[code][frame.f_lasti] in LOOKUPS
            self.opcodes_left -= 1
            if not self.opcodes_left:
                sys.settrace(None)
        return self.count


def opcodes_of(function, *args):
    """code -> how many instructions ``function(*args)`` executes, and how many of these look up a name; None: they
    can't be counted, or are too many."""
    if sys.version_info < (3, 7) or sys.gettrace() is not None:
        return None
    hook = Opcodes()
    sys.settrace(hook)
    try:
        function(*args)
        is_complete = sys.gettrace() is hook
    finally:
        sys.settrace(None)
    return hook.counts if is_complete else None


def qualified_name(code):
    """As Python 3.11 and later have it; before, and for a code that was given another name since, the bare name."""
    name = getattr(code, "co_qualname", code.co_name)
    return name if name.rpartition(".")[2] == code.co_name else code.co_name


def name_of_frame(frame):
    """``module.qualname``; before Python 3.11 only methods have a qualified name, by their first argument's class."""
    code = frame.f_code
    name = qualified_name(code)
    if not hasattr(code, "co_qualname") and code.co_argcount:
        first = frame.f_locals.get(code.co_varnames[0])
        for owner in getattr(first if isinstance(first, type) else type(first), "__mro__", ()):
            member = vars(owner).get(code.co_name)
            member = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if getattr(member, "__code__", None) is code:
                name = "{}.{}".format(owner.__qualname__, name)
                break
    return "{}.{}".format(frame.f_globals.get("__name__", "?"), name)


def text_of(function):
    """What ``_lsprof`` calls a function in C (Modules/_lsprof.c, normalizeUserObj)."""
    try:
        owner, name = getattr(function, "__self__", None), function.__name__
        if owner is None or isinstance(owner, types.ModuleType):
            module = function.__module__
            return "<built-in method {}>".format("{}.{}".format(module, name) if isinstance(module, str) else name)
        for kind in type(owner).__mro__:
            if name in vars(kind):
                return repr(vars(kind)[name])
        module = function.__module__ if sys.version_info >= (3, 11) else None  # those of pybind11 have one
        return "<built-in method {}>".format("{}.{}".format(module, name) if isinstance(module, str) else name)
    except Exception:  # an owner may answer anything at all
        return "<built-in method ?>"


def name_of_text(text):
    """``numpy.ndarray.sort`` of ``<method 'sort' of 'numpy.ndarray' objects>``."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)
    match = BUILT_IN.match(text)
    if not match:
        return text.strip("<>")
    name, owner = match.groups()
    return "{}.{}".format(owner, name) if owner else name


def fingerprint(code):
    """Of what a function in Python does, by its bytecode: the same wherever it stands, with other comments and
    documentation. Python's versions have other bytecode. Empty if its constants have no text."""
    consts = code.co_consts
    if consts and isinstance(consts[0], str) and code.co_name != "<lambda>":
        consts = consts[1:]  # its documentation
    plain = [constant for constant in consts if not isinstance(constant, types.CodeType)]
    try:
        text = repr((code.co_code, code.co_names, code.co_varnames, plain))
    except Exception:  # of what generated code has for constants
        return ""
    checksum = zlib.crc32(text.encode("utf-8", "replace"))
    for inner in consts:
        if isinstance(inner, types.CodeType):
            checksum = zlib.crc32(fingerprint(inner).encode(), checksum)
    return "{:08x}".format(checksum)


class Names:
    """Parts' names and places, of codes and of the texts of functions in C; ``own`` are opduel's files and folders."""

    OWN = OWN
    fingerprint = staticmethod(fingerprint)

    def __init__(self, tracer, own):
        self.tracer = tracer
        self.own = tuple(os.path.realpath(path) for path in (os.path.dirname(__file__), *own))
        self.files = {}  # file -> whether it is opduel's own, and how it is shown
        self.modules = {}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str):
                self.modules.setdefault(path, name)
        paths = [os.path.dirname(os.__file__), *(path for path in sys.path if isinstance(path, str) and path)]
        self.folders = sorted({path.rstrip(os.sep) + os.sep for path in paths}, key=len, reverse=True)

    def file(self, path):
        if path not in self.files:
            real = os.path.realpath(path)
            own = any(real == own_path or real.startswith(own_path + os.sep) for own_path in self.own)
            folder = next((candidate for candidate in self.folders if path.startswith(candidate)), None)
            short_path = path[len(folder) :] if folder else os.path.basename(path)
            self.files[path] = own, re.split(r"/(?:site|dist)-packages/", short_path)[-1]
        return self.files[path]

    def is_own(self, code):
        return self.file(code.co_filename)[0]

    def name(self, code):
        if not is_python(code):
            return name_of_text(str(code))
        if self.is_own(code):
            return OWN
        traced_name = self.tracer.names.get(code)
        if traced_name:
            return traced_name
        module = self.modules.get(code.co_filename) or os.path.splitext(os.path.basename(code.co_filename))[0]
        return "{}.{}".format(module, qualified_name(code))

    def line(self, code, line):
        return "{}:{}".format(self.file(code.co_filename)[1], line)

    def places(self, code):
        """Where it is defined, and where it is mostly called; of a function in C both are where it is called."""
        if is_python(code) and self.is_own(code):
            return "", ""
        site = self.tracer.site(code, self.is_own)
        called_at = self.line(*site) if site else ""
        return (self.line(code, code.co_firstlineno) if is_python(code) else called_at), called_at


def time_by_stack(stacks, names, times, callers):
    """{(names, outermost first): ns}: each function's time, divided among the stacks in which it was called.

    ``callers`` says what of a function's time is in calls from which function, {name: {name: ns}}: it is divided among
    these first, and among the stacks of one caller as calls are; where that isn't known of all its callers, as calls
    are. Opduel's own part is only in a stack of its own.
    """
    counts, groups = {}, {}
    for (outer, callee), count in stacks.items():
        name = names.name(callee)
        if name != OWN and name in times:
            path = [outer_name for outer_name in map(names.name, outer) if outer_name != OWN and outer_name in times]
            path = tuple(
                inner_name
                for number, inner_name in enumerate([*path, name])
                if number == 0 or path[number - 1] != inner_name
            )
            counts[path] = counts.get(path, 0) + count
            group = groups.setdefault(name, {})
            group[path[-2:-1]] = group.get(path[-2:-1], 0) + count
    ns_by_path = {}
    for path, count in counts.items():
        name, group = path[-1], groups[path[-1]]
        ns_by_caller = {
            caller_path: callers.get(name, {}).get(caller_path[0] if caller_path else "", 0) for caller_path in group
        }
        weights = ns_by_caller if all(ns_by_caller.values()) else group
        share = weights[path[-2:-1]] / sum(weights.values())
        ns_by_path[path] = times[name] * share * count / group[path[-2:-1]]
    ns_by_path.update({(name,): ns for name, ns in times.items() if name not in groups})
    return ns_by_path


def inclusive(stacks):
    """name -> ns of all stacks that it is in."""
    total_ns = {}
    for path, ns in stacks.items():
        for name in set(path):
            total_ns[name] = total_ns.get(name, 0) + ns
    total_ns[OWN] = sum(stacks.values())
    return total_ns
