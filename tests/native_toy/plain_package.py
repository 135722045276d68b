"""A pure Python package in a git checkout, with a build backend of its own: building it needs nothing from an index."""

import shutil
import subprocess
from pathlib import Path

BACKEND = '''"""Makes a wheel of what is in src."""

import pathlib
import zipfile

INFO = "smoother-1.0.dist-info"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {str(path.relative_to("src")): path.read_text() for path in pathlib.Path("src").rglob("*.py")}
    files[f"{INFO}/METADATA"] = "Metadata-Version: 2.1\\nName: smoother\\nVersion: 1.0\\n"
    files[f"{INFO}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: toy\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{INFO}/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{INFO}/RECORD"])
    with zipfile.ZipFile(f"{wheel_directory}/smoother-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "smoother-1.0-py3-none-any.whl"
'''
PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "smoother"
version = "1.0"
"""
CODE = "def smooth(values):\n    return sum(value for _ in range(20) for value in values)\n"
SLOWER = CODE.replace("range(20)", "range(40)")


class PlainPackage:
    """The checkout: one commit on its main branch, whatever that is called."""

    def __init__(self, folder: Path, branch: str = "main", copied_from: "PlainPackage | None" = None) -> None:
        """Make it, or take another one's files and commits, so that both have the same builds."""
        self.folder = folder
        if copied_from:
            shutil.copytree(copied_from.folder, folder)
            return
        folder.mkdir(parents=True)
        self.git("init", "--quiet", f"--initial-branch={branch}")
        self.write("backend.py", BACKEND)
        self.write("pyproject.toml", PROJECT)
        self.write("src/smoother/__init__.py", CODE)
        self.commit("First")

    def write(self, name: str, text: str) -> None:
        """Write a file of the work tree."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def commit(self, subject: str) -> str:
        """Commit the work tree; return the commit's id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        """Return what git prints."""
        settings = ("-c", "user.name=Ada", "-c", "user.email=ada@toy.example", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(self.folder), *settings, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
