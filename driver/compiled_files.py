"""Compare two compiled files by what a process gets of them when it loads them.

Debug information names folders and lines of sources, and an id is made of it all: both differ where the code is the
same.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

_BUILD_ID = ".note.gnu.build-id"
_OF_HEADER = ("e_type", "e_machine", "e_entry", "e_flags")
_OF_SEGMENT = ("p_type", "p_flags", "p_vaddr", "p_filesz", "p_memsz", "p_align")
_OF_SECTION = ("sh_type", "sh_flags", "sh_addr", "sh_size", "sh_addralign", "sh_entsize")


def is_loaded_alike(ours: Path, theirs: Path) -> bool:
    """Tell whether two ELF files give the same code and data to the process that loads them. False, too, where that
    can't be seen: no ELF file, not a whole one, or one without a table of sections. Raise OSError."""
    try:
        with ours.open("rb") as here, theirs.open("rb") as there:
            sides = [list(_loaded(ELFFile(stream))) for stream in (here, there)]
    except (ELFError, ConstructError, AttributeError, KeyError, OverflowError, ValueError):
        return False
    return sides[0] == sides[1] and len(sides[0]) > 1


def _loaded(elf: ELFFile) -> Iterator[Any]:
    """Yield the header and the segments, then each section that is loaded, with a digest of its content."""
    yield (
        [elf.elfclass, *(elf[name] for name in _OF_HEADER)],
        [[segment[name] for name in _OF_SEGMENT] for segment in elf.iter_segments()],
    )
    for section in elf.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section.name != _BUILD_ID:
            content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
            yield section.name, [section[name] for name in _OF_SECTION], sha256(content).digest()
