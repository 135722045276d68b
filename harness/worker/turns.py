"""Blocks that two processes time in turns, one on either side: each hands over to the other when it has had its own.

So the controller has nothing to do from block to block, which took as long as a short block.  Standard library and
Python 3.6 syntax only, as main.py.
"""

import os

GO, STOP = b".", b"x"


def take_turns(block, turns, first, hear, tell):
    """The values of ``block()``, called ``turns[k]`` times when it is this process's turn for the kth time.

    ``hear`` and ``tell`` are the paths of the pipes from and to the other process.  ``first``: it begins, and needs no
    GO for it.  Fewer values when the controller says STOP.
    """
    values = []
    read_fd, write_fd = os.open(hear, os.O_RDONLY), os.open(tell, os.O_WRONLY)
    try:
        for number, count in enumerate(turns):
            if (number or not first) and os.read(read_fd, 1) != GO:
                break
            values.extend(block() for _ in range(count))
            os.write(write_fd, GO)
    finally:
        os.close(read_fd)
        os.close(write_fd)
    return values
