#ifndef TOY_H
#define TOY_H

/* Each operator reads `count` values PASSES times over, as one chain in which every step waits for the one before it:
   what it takes hangs on PASSES and the clock of the processor, and on little else. */
double toy_add(const double *values, int count);
double toy_mul(const double *values, int count);
double toy_sum(const double *values, int count);
int toy_revision(void);

/* How many values the last call has read. */
void toy_count(int steps);
int toy_last_steps(void);

#endif
