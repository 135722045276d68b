"""Blocks that two processes time in turns, one on either side: each hands over to the other when it has had its own.

So the controller has nothing to do from block to block, which took as long as a short block.  Standard library and
Python 3.6 syntax only, as main.py.
"""

import os

GO, STOP = b".", b"x"


def take_turns(block, turns, first, read_from, write_to):
    """The values of ``block(switched)``, called ``turns[k]`` times when it is this process's turn for the kth time;
    ``switched``: the other process has had its turn since the last one.

    ``read_from`` and ``write_to`` are the paths of the pipes from and to the other process.  ``first``: it begins, and
    needs no GO for it.  Fewer values when the controller says STOP, and none where a pipe can't be opened.
    """
    values, opened = [], []
    try:
        try:
            for path, flags in ((read_from, os.O_RDONLY), (write_to, os.O_WRONLY)):
                opened.append(os.open(path, flags))
        except OSError:
            return values
        read_fd, write_fd = opened
        for number, count in enumerate(turns):
            if (number or not first) and os.read(read_fd, 1) != GO:
                break
            for place in range(count):
                values.append(block(place == 0))
            os.write(write_fd, GO)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return values
