#include "toy.h"

#define REVISION 0

int toy_revision(void) { return REVISION; }
