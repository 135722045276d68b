"""By hand: a fleet whose parts are killed with -9, stopped and cut off at random moments; is anything lost or doubled?

    .venv/bin/python benchmarks/fleet_kills.py [--kills 50] [--hosts 3] [--namespaces] [--faults cut,slow]
        [--lasting SECONDS] [--counts FILE] [--at_most SECONDS] [--seed N]

A campaign is harness.py --fleet with --round_log on functions of NumPy, half of them slowed by an injected 50 %. Three
workers and a scheduler, with certificates, are programs of their own; with --namespaces (needs root) each host has a
network namespace, and its cable is pulled, too. What is killed is drawn: the client, the scheduler, a host's worker
with all that it started, Dask's own worker process, or the process that measures; or a host is stopped for some
seconds, or slowed to a half or a tenth. What was killed is started again, the client with the same command, until it
ends by itself. With --counts, what earlier parts of a long series came to is read from a file, and added to there.

Counted, of each report: cases that are missing or there twice, rounds that the client had of the host that measured a
shard and that the report lacks, samples that stand there twice, samples of a case that are of another host, verdicts
that are wrong. Exit code 1 if any of these was seen.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.namespaces import Network  # noqa: E402

BUILD = "numpy==2.2.6"
FUNCTIONS = (
    *("exp", "sqrt", "negative", "sin", "cos", "tanh", "log1p", "square", "floor", "absolute", "sign", "rint"),
    *("cumsum", "diff", "sum", "mean", "std", "argsort", "sort", "flip", "cosh", "expm1", "ravel", "copy"),
)
TARGETS = ("client", "scheduler", "worker", "daemon", "measuring", "stopped", "slow")
CUTS = ("cut", "all cut")  # with --namespaces: the cable of a host, or of all
STOPPED_S = 8.0  # the longest that a host is stopped, or cut off
SLICE_S = 0.05  # of a slowed host's time: it computes for one, and is stopped for the next ones
LONGEST_S = 900.0  # of a client that nobody kills
OPTIONS = ("--inject", "0.5", "--threshold", "15%", "--max_rounds", "5", "--busy_host", "report", "--explain", "none")


@dataclass
class Counts:
    """What all campaigns came to."""

    kills: Counter[str] = field(default_factory=Counter)
    campaigns: int = 0
    starts: int = 0  # of clients
    cases: int = 0
    missing: int = 0
    doubled: int = 0
    rounds_lost: int = 0
    pooled: int = 0  # samples of a case, of another host than the report names
    wrong: list[str] = field(default_factory=list)  # cases
    not_found: int = 0
    injected: int = 0
    broken: list[str] = field(default_factory=list)
    moved: int = 0  # cases, from a slow host to another

    @classmethod
    def kept(cls, path: Path | None) -> "Counts":
        """Those of earlier parts of a series; none if there is no file."""
        if path is None or not path.exists():
            return cls()
        fields = json.loads(path.read_text())
        return cls(**{**fields, "kills": Counter(fields["kills"])})

    @property
    def bad(self) -> bool:
        """Whether anything went wrong."""
        return any((self.missing, self.doubled, self.rounds_lost, self.pooled, self.wrong, self.broken))

    def lines(self) -> Iterator[str]:
        """All of it, in words."""
        by_target = ", ".join(f"{target} {count}" for target, count in sorted(self.kills.items()))
        starts = f"{self.starts} starts of the client"
        yield f"{self.kills.total()} faults in {self.campaigns} campaigns ({starts}): {by_target}"
        samples = f"samples doubled {self.doubled}, of another host {self.pooled}"
        yield f"{self.cases} cases: missing {self.missing}, {samples}"
        yield f"rounds lost: {self.rounds_lost}; cases that moved from a slow host: {self.moved}"
        yield f"slowed cases found: {self.injected - self.not_found} of {self.injected}; wrong verdicts: {self.wrong}"
        yield from (f"ended by itself: {text}" for text in self.broken)


class Machines:
    """The fleet's programs, each of which can be started again."""

    def __init__(
        self, folder: Path, hosts: int, namespaces: bool, lasting: float | None, stack: contextlib.ExitStack
    ) -> None:
        self.folder, self.hosts = folder, [f"host-{number}" for number in range(1, hosts + 1)]
        self.lasting = lasting
        self._network: Network | None = None
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._over = threading.Event()
        self.certificates = folder / "certificates"
        subprocess.run(
            self._fleet("certificates", str(self.certificates)), cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
        if namespaces:
            self._network = Network(self.hosts)
            stack.callback(self._network.remove)
        address = self._network.address if self._network else "127.0.0.1"
        self.address = f"tls://{address}:{random.randrange(20000, 30000)}"
        stack.callback(self.end)
        self.start("scheduler")
        for host in self.hosts:
            self.start(host)

    def _fleet(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "opduel", "fleet", *words]

    def start(self, name: str) -> None:
        """The scheduler, or a host's worker."""
        command = self._fleet("scheduler", self.address)
        if name != "scheduler":
            command = self._fleet("worker", self.address, "--name", name, "--folder", str(self.folder / name))
            if self._network:
                command = self._network.command(name, command)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, "--certificates", str(self.certificates)], cwd=ROOT, stderr=log, start_new_session=True
            )

    def fault(self, target: str, rng: random.Random) -> bool:
        """Do it; whether there was anything to do it to."""
        if target == "scheduler":
            self._kill("scheduler")
            time.sleep(rng.uniform(0, 2))
            self.start("scheduler")
            return True
        host = rng.choice(self.hosts)
        if target == "worker":
            for process in self._tree(host):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._kill(host)
            time.sleep(rng.uniform(0, 2))
            self.start(host)
        elif target in ("cut", "all cut"):
            assert self._network is not None
            cut_off = [host] if target == "cut" else self.hosts
            self._network.pull(cut_off)
            print(f"cut off: {', '.join(cut_off)}", flush=True)
            time.sleep(self._duration(rng))
            print("cables are back", flush=True)
            self._network.plug(cut_off)
        elif target == "slow":
            threading.Thread(
                target=self._slow, args=(host, rng.choice((2, 10)), 4 * self._duration(rng)), daemon=True
            ).start()
        elif target == "stopped":
            tree = self._tree(host)
            _each(tree, psutil.Process.suspend)
            time.sleep(self._duration(rng))
            _each(tree, psutil.Process.resume)
        else:
            part = "shard_process" if target == "measuring" else "spawn_main"
            found = [process for process in self._tree(host) if part in _words(process)]
            _each(found, psutil.Process.kill)
            return bool(found)
        return True

    def _duration(self, rng: random.Random) -> float:
        return self.lasting or rng.uniform(0.5, STOPPED_S)

    def _slow(self, host: str, times: int, seconds: float) -> None:
        """For so long the host takes so many times as long for everything."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._over.is_set():
            tree = self._tree(host)
            _each(tree, psutil.Process.suspend)
            time.sleep(SLICE_S * (times - 1))
            _each(tree, psutil.Process.resume)
            time.sleep(SLICE_S)

    def _tree(self, host: str) -> list[psutil.Process]:
        """The worker and all that it started, those that begin a session of their own included."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._running[host].pid)
            return [process, *process.children(recursive=True)]
        return []

    def _kill(self, name: str) -> None:
        process = self._running[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        """End all."""
        self._over.set()
        time.sleep(10 * SLICE_S)  # whoever slows a host lets it go
        for process in self._running.values():
            process.terminate()
        for name, process in self._running.items():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                self._kill(name)


def _each(processes: Sequence[psutil.Process], act: Callable[[psutil.Process], object]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            act(process)


def _words(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def main() -> int:
    """Run campaigns until there were enough faults; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="faults in all (default: 50)")
    parser.add_argument("--hosts", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--namespaces", action="store_true", help="a network namespace for each host; needs root")
    parser.add_argument("--mean", type=float, default=6.0, metavar="SECONDS", help="until a fault (default: 6)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), metavar="N", help="of the moments")
    parser.add_argument("--faults", metavar="NAMES", help="these only, separated by commas")
    parser.add_argument(
        "--lasting", type=float, metavar="SECONDS", help="of each stop and cut (default: random, up to 8)"
    )
    parser.add_argument(
        "--at_most", type=float, default=1e9, metavar="SECONDS", help="until the last fault of this part"
    )
    parser.add_argument("--counts", type=Path, metavar="FILE", help="what the parts of a series came to")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    counts, before = Counts.kept(options.counts), Counts.kept(options.counts)
    most, ends = before.kills.total() + options.kills, time.monotonic() + options.at_most

    def is_enough() -> bool:
        return counts.kills.total() >= most or time.monotonic() > ends

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opduel-fleet-")))
        machines = Machines(folder, options.hosts, options.namespaces, options.lasting, stack)
        targets = [*TARGETS, *CUTS] if options.namespaces else list(TARGETS)
        if options.faults is not None and not (targets := [one for one in options.faults.split(",") if one in targets]):
            parser.error(
                f"--faults {options.faults}: give some of {', '.join([*TARGETS, 'cut'])}; cut needs --namespaces"
            )
        while not is_enough():
            _campaign(machines, rng, targets, options.mean, is_enough, counts)
            print(f"{counts.kills.total()} faults, {counts.campaigns} campaigns", flush=True)
            if options.counts is not None:
                options.counts.write_text(json.dumps({**vars(counts), "kills": dict(counts.kills)}))
    print("\n".join(counts.lines()))
    return 1 if counts.bad else 0


def _campaign(
    machines: Machines,
    rng: random.Random,
    targets: Sequence[str],
    mean: float,
    is_enough: Callable[[], bool],
    counts: Counts,
) -> None:
    """Start the client, and harm it and the others, until it ends by itself with a complete report."""
    folder = machines.folder / f"campaign-{counts.campaigns}"
    folder.mkdir()
    tests = [{"operator": f"numpy.{name}", "inputs": {"args": [[256]]}} for name in FUNCTIONS]
    (folder / "spec.json").write_text(json.dumps({"framework": "python", "tests": tests}))
    log, copy = folder / "rounds", folder / "rounds-copy"
    command = [
        sys.executable,
        str(ROOT / "harness.py"),
        "-b",
        str(folder / "spec.json"),
        *OPTIONS,
        "--round_log",
        str(log),
    ]
    command += ["--control", BUILD, "--treatment", BUILD, "--fleet", machines.address]
    command += ["--fleet_certificates", str(machines.certificates), "--simple_local_reporter", str(folder / "report")]
    command += ["--seed", str(counts.campaigns)]
    while True:
        counts.starts += 1
        with (folder / "client.log").open("ab") as errors:
            client = subprocess.Popen(command, stderr=errors, start_new_session=True)
        killed = False
        began = time.monotonic()
        while client.poll() is None:
            if log.exists() and not copy.exists():
                copy.hardlink_to(log)  # a finished run removes its log
            measures = copy.exists() and '"event": "round"' in copy.read_text()
            if is_enough() or (machines.lasting and not measures):  # what lasts shall come in between
                with contextlib.suppress(subprocess.TimeoutExpired):
                    client.wait(1)
                assert time.monotonic() - began < LONGEST_S, "the client hangs"
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(rng.expovariate(1 / mean))
            if client.poll() is not None:
                break
            target = rng.choice(targets)
            if target == "client":
                os.killpg(client.pid, signal.SIGKILL)
                client.wait()
                killed = True
                counts.kills[target] += 1
            elif machines.fault(target, rng):
                counts.kills[target] += 1
        if not killed and client.returncode != 3:
            break
    counts.campaigns += 1
    said = (folder / "client.log").read_text().splitlines()
    print("\n".join(line for line in said if "harness.py:" in line), flush=True)
    if client.returncode not in (0, 1):
        counts.broken.append(f"exit code {client.returncode}: {said[-1:]}")
        return
    _check(json.loads((folder / "report" / "report.json").read_text()), copy, counts)


def _check(report: dict[str, Any], log: Path, counts: Counts) -> None:
    """Compare the report with all that the client was ever sent."""
    rows = report["comparisons"]
    counts.cases += len(rows)
    counts.missing += len(FUNCTIONS) - len({one["case"] for one in rows}) + (not report["run"]["complete"])
    counts.doubled += len(rows) - len({one["case"] for one in rows})
    sent, shard_of = _sent(log, counts)
    for one in rows:
        samples = [(sample["round"], sample["log_ratio"]) for sample in one["samples"]]
        counts.doubled += len(samples) - len({number for number, _ in samples})
        own = one["host"], shard_of.get(one["case"], "")
        counts.rounds_lost += len(sent.get(own, {}).get(one["case"], set()) - set(samples))
        others = (by_case.get(one["case"], set()) for (host, _), by_case in sent.items() if host != one["host"])
        counts.pooled += sum(len(other & set(samples)) for other in others)
        if one["injected"]:
            counts.injected += 1
            counts.not_found += one["verdict"] != "regressed"
        if one["verdict"] in ("failed", "improved", "unchanged" if one["injected"] else "regressed"):
            counts.wrong.append(one["case"])


Sent = dict[tuple[str, str], dict[str, set[tuple[int, float]]]]  # host and shard -> case -> round and log ratio


def _sent(log: Path, counts: Counts) -> tuple[Sent, dict[str, str]]:
    """What hosts measured, as the client kept it, and the shard that each case of a report is of."""
    sent: Sent = {}
    shard_of: dict[str, str] = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if entry.get("event") == "moved":
                counts.moved += sum(map(len, entry["shards"]))
            if entry.get("event") in ("report", "moved") and entry["report"] is not None:
                rows = json.loads(entry["report"])["comparisons"]
                shard_of |= {one["case"]: entry["key"] for one in rows}
            if entry.get("event") == "round":
                text = json.loads(entry["text"])
                for sample in text["result"]["samples"] if text["kind"] == "round" else ():
                    by_case = sent.setdefault((entry["host"], entry["key"]), {})
                    by_case.setdefault(sample["case_id"], set()).add((sample["round"], sample["log_ratio"]))
    return sent, shard_of


if __name__ == "__main__":
    raise SystemExit(main())
