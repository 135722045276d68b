"""Hosts that are network namespaces of this machine, each with a cable to a bridge; needs root."""

import random
import subprocess
from collections.abc import Sequence


class Network:
    """A bridge with an address, and a namespace for each host. Several can be there at the same time."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._number = random.randrange(1, 250)
        self._hosts = {host: f"od{self._number}-{place}" for place, host in enumerate(hosts, 11)}
        self._bridge = f"od{self._number}"
        self.address = f"10.77.{self._number}.1"
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for place, name in enumerate(self._hosts.values(), 11):
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", self._bridge, "up")
            _ip("-n", name, "addr", "add", f"10.77.{self._number}.{place}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def command(self, host: str, command: Sequence[str]) -> list[str]:
        """The command that runs this one on the host."""
        return ["ip", "netns", "exec", self._hosts[host], *command]

    def pull(self, hosts: Sequence[str]) -> None:
        """Pull the cables of these hosts."""
        for host in hosts:
            _ip("link", "set", self._hosts[host], "down")

    def plug(self, hosts: Sequence[str]) -> None:
        """Put them back."""
        for host in hosts:
            _ip("link", "set", self._hosts[host], "up")

    def remove(self) -> None:
        """Remove all of it."""
        for name in self._hosts.values():
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self._bridge], check=False, stderr=subprocess.DEVNULL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
