"""Reads a shared library's file (ELF, x86-64): its bytes by address, its symbols, functions and pointers.

pyelftools decodes the file. It takes too long for tables of a million entries, which numpy reads from the sections that
pyelftools finds. Addresses are those in the file, as callgrind has them.
"""

import mmap
from bisect import bisect_right
from functools import cached_property
from typing import IO, cast

import numpy as np
import numpy.typing as npt
from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

Column = npt.NDArray[np.int64]
LONGEST_TEXT = 4000  # bytes of a string
# System V ABI, chapter 4, "Symbol Table" and "Relocation".
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("at", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("target", "<i8")])
_FUNCTION_KINDS = (2, 10)  # of symbols: functions, and those that are chosen when the program starts
_RELATIVE = 8  # the kind of a pointer into the library itself
_INDEX_FORM = bytes((1, 0x1B, 0x03, 0x3B))  # of .eh_frame_hdr: version 1, and a table relative to it


class ElfFile:
    """One library's file. Raises OSError: it can't be read. ValueError: it isn't a whole file of this kind."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as stream:
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._elf = ELFFile(cast(IO[bytes], self._bytes))
            if self._elf["e_machine"] != "EM_X86_64":
                raise ValueError("not an ELF file for x86-64")
            self._sections = {section.name: section for section in self._elf.iter_sections()}
            self._segments = [
                (int(segment["p_vaddr"]), int(segment["p_offset"]), int(segment["p_filesz"]))
                for segment in self._elf.iter_segments("PT_LOAD")
            ]
        except (ELFError, ConstructError, AttributeError, KeyError, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"not a whole ELF file: {error}") from None

    def read(self, address: int, size: int) -> bytes:
        """Return the bytes at an address, fewer at the end of the file; empty for an address outside of the file."""
        for start, offset, length in self._segments:
            if start <= address < start + length:
                place = address - start + offset
                return self._bytes[place : place + size]
        return b""

    def text(self, address: int) -> bytes:
        """Return the string at an address; empty where there is none."""
        text, end, _ = self.read(address, LONGEST_TEXT).partition(b"\0")
        return text if end else b""

    def address_of(self, offset: int) -> int | None:
        """Return the address of what lies at an offset in the file; None if it isn't loaded."""
        for start, segment_offset, length in self._segments:
            if segment_offset <= offset < segment_offset + length:
                return offset - segment_offset + start
        return None

    @cached_property
    def symbols(self) -> dict[int, tuple[int, str]]:
        """Where each function that has a symbol begins -> its bytes, and the shortest of its names."""
        functions: dict[int, tuple[int, str]] = {}
        for table, names in ((".symtab", ".strtab"), (".dynsym", ".dynstr")):
            texts = self._data(names)
            rows = self._table(table, _SYMBOL)
            rows = rows[np.isin(rows["info"] & 15, _FUNCTION_KINDS) & (rows["section"] != 0) & (rows["size"] != 0)]
            for start, size, at in zip(rows["at"].tolist(), rows["size"].tolist(), rows["name"].tolist(), strict=True):
                name = texts[at : texts.find(b"\0", at)].decode(errors="replace")
                _, other = functions.get(start, (0, name))
                functions[start] = size, min(name, other, key=lambda text: (len(text), text))
        return functions

    def function_at(self, address: int) -> int | None:
        """Return where the function begins that an address is in; None: it is in none. Also of a stripped library: by
        the table that it unwinds its stack with (Linux Standard Base Core, 10.6.2)."""
        starts, _ = self._functions
        number = bisect_right(starts, address) - 1
        start = int(starts[number]) if number >= 0 else None
        return start if start is not None and address < self.end_of(start) else None

    def end_of(self, start: int) -> int:
        """Return where the function ends that begins at an address."""
        starts, descriptions = self._functions
        description = int(descriptions[bisect_right(starts, start) - 1])
        return start + int.from_bytes(self.read(description + 12, 4), "little", signed=True)

    @cached_property
    def function_starts(self) -> frozenset[int]:
        """Where functions begin."""
        return frozenset(self._functions[0].tolist())

    @cached_property
    def _functions(self) -> tuple[Column, Column]:
        """Where functions begin, in order, and where their descriptions are."""
        data = self._data(".eh_frame_hdr")
        if data[:4] != _INDEX_FORM:
            return np.array([], dtype=np.int64), np.array([], dtype=np.int64)
        number = min(int.from_bytes(data[8:12], "little"), (len(data) - 12) // 8)
        rows = np.frombuffer(data, "<i4", 2 * number, 12).reshape(-1, 2).astype(np.int64)
        rows += int(self._sections[".eh_frame_hdr"]["sh_addr"])
        return rows[:, 0], rows[:, 1]

    @cached_property
    def pointers(self) -> dict[int, int]:
        """Where the library has pointers into itself -> to where."""
        rows = self._table(".rela.dyn", _RELOCATION)
        rows = rows[rows["kind"] == _RELATIVE]
        return dict(zip(rows["at"].tolist(), rows["target"].tolist(), strict=True))

    def _data(self, section: str) -> bytes:
        return bytes(self._sections[section].data()) if section in self._sections else b""

    def _table(self, section: str, row: np.dtype[np.void]) -> npt.NDArray[np.void]:
        data = self._data(section)
        return np.frombuffer(data[: len(data) - len(data) % row.itemsize], row)
