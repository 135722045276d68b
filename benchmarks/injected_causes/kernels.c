/* The native half of the package that causes are injected into: causes.py replaces one passage of it in the treatment.

Functions that Python calls begin with sn_. They do what numerical libraries do: call helpers, use a workspace, check, go
along the memory. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline))
#define STIRS 6000
#define FOLDS 4000

static NOINLINE void reverse_into(const double *x, double *out, long n) {
    for (long i = 0; i < n; i++) out[n - 1 - i] = x[i];
}

void sn_reverse(const double *x, double *out, long n) {
    reverse_into(x, out, n);
}

static NOINLINE void running_sums(const double *x, double *sums, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) sums[i] = sum += x[i];
}

static NOINLINE void window_means(const double *sums, double *out, long n, long width) {
    for (long i = 0; i < n; i++) out[i] = (sums[i] - (i < width ? 0 : sums[i - width])) / width;
}

void sn_smooth(const double *x, double *out, long n, long width) {
    static double workspace[1 << 16];
    double *sums = workspace;
    running_sums(x, sums, n);
    window_means(sums, out, n, width);
}

NOINLINE int all_finite(const double *x, long n) {
    int good = 1;
    for (long i = 0; i < n; i++) good &= isfinite(x[i]) != 0;
    return good;
}

static NOINLINE double dot_kernel(const double *x, const double *y, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

double sn_dot(const double *x, const double *y, long n) {
    return dot_kernel(x, y, n);
}

static NOINLINE void add_columns(const double *x, double *out, long rows, long columns) {
    for (long row = 0; row < rows; row++)
        for (long column = 0; column < columns; column++) out[column] += x[row * columns + column];
}

void sn_column_sums(const double *x, double *out, long rows, long columns) {
    memset(out, 0, columns * sizeof *out);
    add_columns(x, out, rows, columns);
}

static NOINLINE double weighted_window(const double *x, const double *kernel, long m) {
    double sum = 0;
    for (long j = 0; j < m; j++) sum += x[j] * kernel[j];
    return sum;
}

void sn_convolve(const double *x, double *out, long n, const double *kernel, long m) {
    for (long i = 0; i + m <= n; i++) out[i] = weighted_window(x + i, kernel, m);
}

/* Two loops with the same body, so that their turns are their shares. */

static NOINLINE uint64_t stir(uint64_t state, long turns) {
    for (long i = 0; i < turns; i++) state = (state << 5) ^ (state >> 3) ^ (uint64_t)i;
    return state;
}

static NOINLINE uint64_t fold(uint64_t state, long turns) {
    for (long i = 0; i < turns; i++) state = (state << 7) ^ (state >> 9) ^ (uint64_t)i;
    return state;
}

uint64_t sn_mix(uint64_t seed) { return fold(stir(seed, STIRS), FOLDS); }
