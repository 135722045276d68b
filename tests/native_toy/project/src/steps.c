#include "toy.h"

static int last;

void toy_count(int steps) { last = steps; }

int toy_last_steps(void) { return last; }
