#include "toy.h"

#define PASSES 60

double toy_mul(const double *values, int count) {
    double result = 0.0;
    for (int pass = 0; pass < PASSES * TOY_PERCENT / 100; ++pass)
        for (int i = 0; i < count; ++i)
            result = result * 0.5 + values[i] * values[count - 1 - i];
    toy_count(PASSES * TOY_PERCENT / 100 * count);
    return result;
}
