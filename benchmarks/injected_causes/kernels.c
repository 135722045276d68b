/* The native half of the package that causes are injected into: causes.py replaces one passage of it in the treatment.

Functions that Python calls begin with sn_. They do what numerical libraries do: choose a fast path, use a workspace, hash,
sort, and call helpers. */

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define NOINLINE __attribute__((noinline))
#define SMALL_RANGE 12 /* elements, from which on insertion is slower than division */
#define TABLE 16384    /* places of the hash table */
#define STIRS 6000
#define FOLDS 4000

/* --- total: a fast path for contiguous data ---------------------------------------------------------------------- */

static NOINLINE double total_contiguous(const double *x, long n) {
    double a = 0, b = 0, c = 0, d = 0;
    long i = 0;
    for (; i + 4 <= n; i += 4) {
        a += x[i];
        b += x[i + 1];
        c += x[i + 2];
        d += x[i + 3];
    }
    for (; i < n; i++) a += x[i];
    return a + b + c + d;
}

static NOINLINE double total_strided(const char *x, long n, long stride) {
    double sum = 0;
    for (long i = 0; i < n; i++) {
        double value;
        memcpy(&value, x + i * stride, sizeof value);
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}

double sn_total(const double *x, long n, long stride) {
    if (stride == sizeof(double)) return total_contiguous(x, n);
    return total_strided((const char *)x, n, stride);
}

/* --- scale: a vectorized inner loop ------------------------------------------------------------------------------ */

static NOINLINE void scale_row(const double *restrict x, double *restrict out, long n, double factor) {
    for (long i = 0; i < n; i++) {
        double power = x[i];
        for (int turn = 0; turn < 8; turn++) power = power * factor + 1.0;
        out[i] = power;
    }
}

void sn_scale(const double *x, double *out, long n, double factor) { scale_row(x, out, n, factor); }

/* --- smooth: a workspace ----------------------------------------------------------------------------------------- */

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

/* --- dot, reverse ------------------------------------------------------------------------------------------------ */

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

static NOINLINE void reverse_into(const double *x, double *out, long n) {
    for (long i = 0; i < n; i++) out[n - 1 - i] = x[i];
}

void sn_reverse(const double *x, double *out, long n) {
    reverse_into(x, out, n);
}

/* --- sort -------------------------------------------------------------------------------------------------------- */

static NOINLINE void insertion_sort(double *x, long n) {
    for (long i = 1; i < n; i++) {
        double value = x[i];
        long at = i;
        for (; at > 0 && x[at - 1] > value; at--) x[at] = x[at - 1];
        x[at] = value;
    }
}

static void sort_range(double *x, long n) {
    while (n > SMALL_RANGE) {
        double pivot = x[n / 2];
        long low = 0, high = n - 1;
        while (low <= high) {
            while (x[low] < pivot) low++;
            while (x[high] > pivot) high--;
            if (low <= high) {
                double swap = x[low];
                x[low++] = x[high];
                x[high--] = swap;
            }
        }
        sort_range(x, high + 1);
        x += low;
        n -= low;
    }
    insertion_sort(x, n);
}

void sn_sort(const double *x, double *out, long n) {
    memcpy(out, x, n * sizeof *x);
    sort_range(out, n);
}

/* --- count_distinct: a hash table -------------------------------------------------------------------------------- */

static NOINLINE uint64_t hash_value(uint64_t bits) {
    bits ^= bits >> 33;
    bits *= 0xff51afd7ed558ccdULL;
    return bits ^ (bits >> 33);
}

static NOINLINE int insert(uint64_t *table, uint64_t bits, uint64_t hash) {
    for (uint64_t at = hash % TABLE;; at = (at + 1) % TABLE) {
        if (table[at] == bits) return 0;
        if (table[at] == 0) {
            table[at] = bits;
            return 1;
        }
    }
}

long sn_count_distinct(const double *x, long n) {
    static uint64_t table[TABLE];
    long count = 0;
    memset(table, 0, sizeof table);
    for (long i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        count += insert(table, bits, hash_value(bits));
    }
    return count;
}

/* --- polynomial, weigh, cube: helpers and primitives ------------------------------------------------------------- */

static inline double horner(const double *c, long k, double x) {
    double sum = c[k - 1];
    for (long i = k - 2; i >= 0; i--) sum = sum * x + c[i];
    return sum;
}

void sn_polynomial(const double *x, double *out, long n, const double *c, long k) {
    for (long i = 0; i < n; i++) out[i] = horner(c, k, x[i]);
}

static NOINLINE double weight_of(double x) {
    double near = 1;
    for (int i = 0; i < 6; i++) near = 0.5 * (near + (1 + x * x) / near);
    return near;
}

void sn_weigh(const double *x, double *out, long n) {
    for (long i = 0; i < n; i++) out[i] = x[i] * weight_of(x[i]);
}

void sn_cube(const double *x, double *out, long n) {
    for (long i = 0; i < n; i++) out[i] = x[i] * x[i] * x[i];
}

/* --- histogram: a table that is shared --------------------------------------------------------------------------- */

long sn_histogram(const double *x, long *bins, long n, long count) {
    for (long i = 0; i < n; i++) {
        long at = (long)(x[i] * count);
        at = at < 0 ? 0 : at >= count ? count - 1 : at;
        bins[at]++;
    }
    return bins[0];
}

/* --- normalise: two passes --------------------------------------------------------------------------------------- */

static NOINLINE void find_range(const double *x, long n, double *range) {
    range[0] = range[1] = x[0];
    for (long i = 1; i < n; i++) {
        if (x[i] < range[0]) range[0] = x[i];
        if (x[i] > range[1]) range[1] = x[i];
    }
}

void sn_normalise(const double *x, double *out, long n) {
    double range[2];
    find_range(x, n, range);
    for (long i = 0; i < n; i++) out[i] = (x[i] - range[0]) / (range[1] - range[0] + 1);
}

/* --- block_maxima: what is done for every block ------------------------------------------------------------------ */

static NOINLINE double block_maximum(const double *x, long n) {
    double most = x[0];
    for (long i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

void sn_block_maxima(const double *x, double *out, long n, long block) {
    for (long i = 0; i < n / block; i++) {
        out[i] = block_maximum(x + i * block, block);
    }
}

/* --- column_sums: along the memory, or across it ----------------------------------------------------------------- */

static NOINLINE void add_columns(const double *x, double *out, long rows, long columns) {
    for (long row = 0; row < rows; row++)
        for (long column = 0; column < columns; column++) out[column] += x[row * columns + column];
}

void sn_column_sums(const double *x, double *out, long rows, long columns) {
    memset(out, 0, columns * sizeof *out);
    add_columns(x, out, rows, columns);
}

/* --- convolve ---------------------------------------------------------------------------------------------------- */

static NOINLINE double weighted_window(const double *x, const double *kernel, long m) {
    double sum = 0;
    for (long j = 0; j < m; j++) sum += x[j] * kernel[j];
    return sum;
}

void sn_convolve(const double *x, const double *kernel, double *out, long n, long m) {
    for (long i = 0; i + m <= n; i++) out[i] = weighted_window(x + i, kernel, m);
}

/* --- mix: two loops with the same body, so that their turns are their shares ------------------------------------- */

static NOINLINE uint64_t stir(uint64_t state, long turns) {
    for (long i = 0; i < turns; i++) state = (state << 5) ^ (state >> 3) ^ (uint64_t)i;
    return state;
}

static NOINLINE uint64_t fold(uint64_t state, long turns) {
    for (long i = 0; i < turns; i++) state = (state << 7) ^ (state >> 9) ^ (uint64_t)i;
    return state;
}

uint64_t sn_mix(uint64_t seed) { return fold(stir(seed, STIRS), FOLDS); }
