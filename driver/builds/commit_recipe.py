"""All that decides what a commit's build holds: its code, a native library, and an environment."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class CommitRecipe:
    """Commits with equal recipes share one build.

    ``code`` is git's hash of the Python package's folder; ``library`` the identity of the native library
    (``opduel.driver.builds.library``); ``pins`` name every package of the environment with its exact version.
    """

    code: str
    library: str
    python: str
    pins: Mapping[str, str]

    @property
    def request(self) -> str:
        """What is made, in words."""
        return f"code {self.code[:12]} over {self.library}"

    @property
    def requirements(self) -> list[str]:
        """Every package with its exact version, as installers read it."""
        return [f"{name}=={version}" for name, version in sorted(self.pins.items())]

    @property
    def key(self) -> str:
        """A readable name with a short hash of the content: equal keys, equal builds."""
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return f"code-{self.code[:12]}-{hashlib.sha256(content).hexdigest()[:12]}"
