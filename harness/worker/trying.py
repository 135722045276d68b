"""Tries cases once each: runs inside a build's own interpreter, standard library and Python 3.6 syntax only.

Standard input holds a line of JSON for each case: {"case": {...}, "seed": int, "seconds": limit}.  Each is tried in a
child of its own, forked after the import, so that it may crash or hang.  Standard output gets a line for each, in
order, whatever the framework prints: {"id": str, "ns": of one call, or null, "reason": null, or why not}.
"""

import argparse
import json
import os
import select
import signal
import sys
import tempfile
import time

TRIES = 3  # calls timed, after one that is not


def import_main():
    """The worker's main module, which knows how to load an adaptor and describe an error."""
    sys.path[0] = os.path.dirname(os.path.abspath(__file__))
    import main

    sys.path.pop(0)  # this folder: the framework must not import our modules by accident
    return main


def attempt(main, adaptor, request):
    """The time of one call in ns, the median of a few."""
    call = adaptor.make_call(request["case"], request["seed"])
    call()
    return sorted(main.time_calls(call, TRIES, 1, 0))[TRIES // 2]


def in_child(main, adaptor, request, write_fd, output):
    """Never returns: writes the outcome to ``write_fd`` and ends."""
    main.die_with_parent()
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    try:
        answer = {"ns": attempt(main, adaptor, request), "reason": None}
    except Exception as error:  # whatever the framework raises is an answer
        answer = {"ns": None, "reason": main.describe(error, adaptor)}
    os.write(write_fd, json.dumps(answer).encode("utf-8"))
    os._exit(0)


def ended(status, output):
    """How a child ended that gave no answer, with its last words."""
    output.seek(0)
    lines = [line.strip() for line in output.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if os.WIFSIGNALED(status):
        text = "died of signal {}".format(os.WTERMSIG(status))
    else:
        text = "ended with exit code {}".format(os.WEXITSTATUS(status))
    return text + (" after saying {!r}".format(lines[0][:120]) if lines else "")


def try_case(main, adaptor, request):
    """The outcome of one case, tried in a child."""
    read_fd, write_fd = os.pipe()
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            in_child(main, adaptor, request, write_fd, output)
        os.close(write_fd)
        deadline = time.monotonic() + request["seconds"]
        text, answered = b"", True
        while True:
            answered = bool(select.select([read_fd], [], [], max(0.0, deadline - time.monotonic()))[0])
            chunk = os.read(read_fd, 1 << 16) if answered else b""
            if not chunk:
                break
            text += chunk
        os.close(read_fd)
        if not answered:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if text:
            return json.loads(text.decode("utf-8"))
        reason = ended(status, output) if answered else "no answer in {:g} s".format(request["seconds"])
        return {"ns": None, "reason": reason}


def serve():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adaptor", required=True)
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main = import_main()
    adaptor = main.load_adaptor(options.adaptor)
    for line in sys.stdin:
        request = json.loads(line)
        outcome = try_case(main, adaptor, request)
        answers.write(json.dumps(dict(outcome, id=request["case"]["id"])) + "\n")
        answers.flush()
    os._exit(0)  # frameworks may hang or crash in their exit handlers; all is said


if __name__ == "__main__":
    serve()
