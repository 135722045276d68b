"""One round: a pair of fresh processes measures each case of its batch, for time, counters or instructions."""
