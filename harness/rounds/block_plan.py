"""The sizes of a case's blocks: calls of a timed region, regions of a block, and quads of blocks."""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opduel.harness.planning.effort import PILOT
from opduel.records.measurement import SIDES, Side

BLOCK_NS = 600_000  # timed calls of one block, but
FEW_CALLS = 8  # so many at least, as long as they take no more than
LONG_BLOCK_NS = 5_000_000
LONGEST_BLOCK_NS = 2_500_000  # timed calls of a block that the controller asks for by itself
DISCARD_NS = 50_000  # calls that warm the caches after a switch: a call at least, of those
# that are shorter; of longer ones, blocks of two and more have a lower decile without them
DISCARDED_BELOW_NS = 1_000_000
LONG_DISCARD_NS = 300_000  # before a block that the controller asks for
LONG_NS = 10_000_000  # regions from here on are blocks by themselves: refilling the caches takes less than a hundredth
ONCE_NS = 1_000_000_000  # and from here on no quads, where preparing takes less than one
INNER_NS = 5_000  # shortest timed region: reading the clock costs some 50 ns
# Of a case whose noise is not known yet, a fork has so many quads, fewer if they take longer than this together, but
# the least number in any case, as long as they take no longer than the last.
PILOT_NS = 60_000_000
LEAST_PILOT_QUADS, LONG_PILOT_NS = 3, 200_000_000
IN_TURNS_NS = 600_000_000  # quads that are measured in turns at a time, without the controller
LATE = 4  # times what it should take, a block of short calls ends, and so do the calls before it that are discarded
MAX_LOPSIDED = 2.0  # beyond this ratio the sides' blocks hold different numbers of calls
SWITCHES = 1.25  # of a quad, after which one side discards calls: five in two quads for both


@dataclass(frozen=True)
class Regions:
    """What a timed region is beyond its calls. ``around_ns``: what comes before it, untimed (evicting the caches, a
    benchmark's ``setup``). ``inner``: how many calls it is where that can't be chosen; None: it can."""

    around_ns: float = 0.0
    inner: int | None = None

    def calls(self, call_ns: float) -> int:
        """Return the calls of one region, where a call takes ``call_ns``: several of short ones."""
        return self.inner or max(1, math.ceil(INNER_NS / call_ns))

    @classmethod
    def of(cls, answers: Iterable[Mapping[str, Any]], wipe_ns: float = 0.0) -> "Regions":
        """Read both sides' answers to "prepare"; ``wipe_ns`` is what evicting the caches takes before a region,
        which is one call then; 0 where they are left alone."""
        sides = list(answers)
        around_ns = max(float(answer.get("around_ns", 0.0)) for answer in sides)
        fixed = [int(answer["inner"]) for answer in sides if "inner" in answer]
        return cls(around_ns + wipe_ns, max(fixed, default=1 if wipe_ns else None))


CALLS_ALONE = Regions()


@dataclass(frozen=True)
class BlockPlan:
    """How a case is measured in one process pair. ``calls`` and ``discard`` count timed regions of ``inner`` calls.
    ``takes_ns``: all of it, in expectation. ``once``: in place of quads, one block a side."""

    inner: int
    calls: dict[Side, int]
    discard: dict[Side, int]
    quads: int
    takes_ns: float
    once: bool = False

    @property
    def late_ns(self) -> float:
        """When a block ends that is far from done, in nanoseconds: its calls differ from those that were tried."""
        return LATE * self.takes_ns / (self.quads * (2 if self.once else 4))

    @property
    def is_quick(self) -> bool:
        """Whether a quad is over so soon that the controller need not ask for each of its blocks."""
        return self.takes_ns <= self.quads * IN_TURNS_NS

    def quads_within(self, limit_ns: float) -> int:
        """Return how many quads take no longer; one at least."""
        return max(1, min(self.quads, math.floor(limit_ns * self.quads / self.takes_ns)))

    def draw_quads(self, rng: random.Random) -> list[list[Side]]:
        """Draw whose block is next, quad by quad."""
        quads: list[list[Side]] = []
        for _ in range(self.quads):
            first, second = rng.sample(SIDES, 2)
            quads.append([first, second] if self.once else [first, second, second, first])
        return quads


def plan_blocks(
    call_ns: dict[Side, float],
    regions: Regions = CALLS_ALONE,
    prepared_ns: float = 0.0,
    in_turns: bool = True,
    quads: int | None = None,
) -> BlockPlan:
    """Plan sizes from both sides' nanoseconds a call: from tens of nanoseconds to many seconds.

    Blocks that aren't measured ``in_turns`` are long ones: from one to the next the controller is asked. Sides of
    similar speed get equal counts, so that their deciles are the same statistic. ``quads``: how many, by the noise that
    the case has shown; None: as many as take as long as preparing both sides did (``prepared_ns``), within bounds.
    """
    slow, fast = max(call_ns.values()), min(call_ns.values())
    if slow <= MAX_LOPSIDED * fast:
        call_ns = dict.fromkeys(SIDES, math.sqrt(slow * fast))
    inner = regions.calls(max(call_ns.values()))
    regions_ns = {side: inner * call_ns[side] + regions.around_ns for side in SIDES}
    calls = {side: _calls_of_block(region_ns, in_turns) for side, region_ns in regions_ns.items()}
    discard_ns = DISCARD_NS if in_turns else LONG_DISCARD_NS
    discard = {
        side: max(1, round(discard_ns / region_ns)) if region_ns < DISCARDED_BELOW_NS else 0
        for side, region_ns in regions_ns.items()
    }
    quad_ns = sum((2 * calls[side] + SWITCHES * discard[side]) * regions_ns[side] for side in SIDES)
    once = min(regions_ns.values()) >= ONCE_NS and max(LONG_PILOT_NS, prepared_ns) < quad_ns
    if quads is None:
        fewest = min(LEAST_PILOT_QUADS, math.floor(max(LONG_PILOT_NS, prepared_ns) / quad_ns))
        quads = max(1, fewest, min(PILOT.quads, math.floor(PILOT_NS / quad_ns)))
    return BlockPlan(inner, calls, discard, quads, quads * quad_ns / (2 if once else 1), once)


def _calls_of_block(region_ns: float, in_turns: bool) -> int:
    """Return the timed regions of a block: enough for a lower decile of short ones, two of those that refill the
    caches."""
    if not in_turns:
        return max(1, round(LONGEST_BLOCK_NS / region_ns))
    if region_ns >= LONG_NS:
        return 1
    few = max(2, min(FEW_CALLS, round(LONG_BLOCK_NS / region_ns)))
    return max(round(BLOCK_NS / region_ns), few)
