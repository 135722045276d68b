"""Causes in native code."""

from functools import partial

from benchmarks.injected_causes.cause import Cause, Truth, vector

native = partial(Cause, "C")
# The functions that ctypes calls: their lines that call a slower function, or compare its result, belong to the cause.
CALLER = "sn_|ctypes|libffi"
NATIVE = (
    native(
        "extra copy",
        "reverse",
        vector(32768),
        [
            (
                "    reverse_into(x, out, n);\n",
                "    double *copy = malloc(n * sizeof *x);\n    memcpy(copy, x, n * sizeof *x);\n"
                "    reverse_into(copy, out, n);\n    free(copy);\n",
            )
        ],
        [Truth("memcpy|memmove", parts="memcpy|memmove|malloc|free|_int_")],
    ),
    native(
        "no fast path for contiguous data",
        "total",
        vector(8192),
        [("    if (stride == sizeof(double)) return total_contiguous(x, n);\n", "")],
        [Truth("total_strided|total_contiguous")],
    ),
    native(
        "a loop that is no longer vectorized",
        "scale",
        vector(8192),
        [
            (
                "static NOINLINE void scale_row",
                '__attribute__((optimize("no-tree-vectorize"))) static NOINLINE void scale_row',
            )
        ],
        [Truth("scale_row")],
    ),
    native(
        "a workspace that is mapped for each call",
        "smooth",
        vector(50000),
        [
            (
                "    static double workspace[1 << 16];\n    double *sums = workspace;\n",
                "    double *sums = mmap(0, n * sizeof *x, PROT_READ | PROT_WRITE, "
                "MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n",
            ),
            (
                "    window_means(sums, out, n, width);\n}\n",
                "    window_means(sums, out, n, width);\n    munmap(sums, n * sizeof *x);\n}\n",
            ),
        ],
        [Truth("page faults|kernel", None, "resources")],
    ),
    native(
        "a lock for each element",
        "histogram",
        vector(8192),
        [
            (
                "        bins[at]++;\n",
                "        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n        pthread_mutex_lock(&lock);\n"
                "        bins[at]++;\n        pthread_mutex_unlock(&lock);\n",
            )
        ],
        [Truth("pthread_mutex", parts=f"pthread_mutex|{CALLER}")],
    ),
    native(
        "a second pass over the data",
        "normalise",
        vector(8192),
        [
            (
                "    find_range(x, n, range);\n    for",
                "    find_range(x, n, range);\n    find_range(x, n, range);\n    for",
            )
        ],
        [Truth("find_range")],
    ),
    native(
        "a check of every element",
        "dot",
        {
            "first": {"call": "numpy.random.rand", "args": [{"value": 8192}]},
            "second": {"call": "numpy.random.rand", "args": [{"value": 8192}]},
        },
        [
            (
                "    return dot_kernel(x, y, n);\n",
                "    return all_finite(x, n) && all_finite(y, n) ? dot_kernel(x, y, n) : NAN;\n",
            )
        ],
        [Truth("all_finite")],
    ),
    native(
        "a function that is no longer inlined",
        "polynomial",
        {**vector(4096), "coefficients": {"call": "numpy.random.rand", "args": [{"value": 4}]}},
        [("static inline double horner", "static NOINLINE double horner")],
        [Truth("horner|sn_polynomial", parts=f"horner|{CALLER}")],
    ),
    native(
        "a helper that is called twice",
        "weigh",
        vector(2048),
        [("x[i] * weight_of(x[i])", "(weight_of(x[i] + 1) > 0 ? x[i] * weight_of(x[i]) : 0)")],
        [Truth("weight_of", parts=f"weight_of|{CALLER}")],
    ),
    native(
        "a system call for each block",
        "block_maxima",
        vector(4096),
        [
            (
                "        out[i] = block_maximum",
                "        struct rusage used;\n        getrusage(RUSAGE_SELF, &used);\n        out[i] = block_maximum",
            )
        ],
        [Truth("kernel", None, "resources")],
    ),
    native(
        "insertion where division is quicker",
        "sort",
        vector(2000),
        [("#define SMALL_RANGE 12", "#define SMALL_RANGE 200")],
        [Truth("insertion_sort|sort_range")],
    ),
    native(
        "a hash byte by byte",
        "count_distinct",
        vector(4096),
        [
            (
                "    bits ^= bits >> 33;\n    bits *= 0xff51afd7ed558ccdULL;\n    return bits ^ (bits >> 33);\n",
                "    uint64_t hash = 0xcbf29ce484222325ULL;\n"
                "    for (int i = 0; i < 8; i++) hash = (hash ^ (bits >> 8 * i & 255)) * 0x100000001b3ULL;\n"
                "    return hash ^ (hash >> 33);\n",
            )
        ],
        [Truth("hash_value", parts="hash_value|insert")],
    ),
    native(
        "pow for a product",
        "cube",
        vector(4096),
        [("out[i] = x[i] * x[i] * x[i];", "out[i] = pow(x[i], 2.9999);")],
        [Truth("pow", parts=f"pow|{CALLER}")],
    ),
    native(
        "across the memory",
        "column_sums",
        {"table": {"call": "numpy.random.rand", "args": [{"value": 1024}, {"value": 1024}]}},
        [
            (
                "    for (long row = 0; row < rows; row++)\n        for (long column = 0; column < columns; column++)",
                "    for (long column = 0; column < columns; column++)\n        for (long row = 0; row < rows; row++)",
            )
        ],
        [Truth("column_sums", 1.0, "Python functions")],
    ),
    native(
        "a function with another name, and slower",
        "convolve",
        {**vector(4096), "kernel": {"call": "numpy.random.rand", "args": [{"value": 16}]}},
        [
            (
                "static NOINLINE double weighted_window(const double *x, const double *kernel, long m) {",
                "static NOINLINE double weighted_span(const double *x, const double *kernel, long m) {\n"
                "    if (!all_zero_or_not(x, m)) return 0;",
            ),
            ("weighted_window(x + i, kernel, m);", "weighted_span(x + i, kernel, m);"),
            (
                "/* --- convolve --",
                "static inline int all_zero_or_not(const double *x, long m) {\n"
                "    int any = 0;\n    for (long j = 0; j < m; j++) any |= x[j] * x[j] < 1e9;\n    return any;\n}\n\n"
                "/* --- convolve --",
            ),
        ],
        # gcc folds the two into one; sn_convolve's loop, which calls it, has one instruction more
        [Truth("weighted_span", parts=f"weighted_|dot_kernel|{CALLER}")],
    ),
    native(
        "two loops with more turns, 7 to 3",
        "mix",
        vector(16),
        [("#define STIRS 6000", "#define STIRS 13000"), ("#define FOLDS 4000", "#define FOLDS 7000")],
        [Truth("stir", 0.7), Truth("fold", 0.3)],
    ),
    native(
        "one loop with more turns, another with fewer",
        "mix",
        vector(16),
        [("#define STIRS 6000", "#define STIRS 14000"), ("#define FOLDS 4000", "#define FOLDS 2000")],
        [Truth("stir", 8 / 6), Truth("fold", -2 / 6)],
    ),
    native(
        "a message that nobody reads, in C",
        "block_maxima",
        vector(4096),
        [
            (
                "        out[i] = block_maximum",
                '        char label[64];\n        snprintf(label, sizeof label, "block %ld of %ld", i, n);\n'
                "        out[i] = block_maximum",
            )
        ],
        [Truth("printf|itoa|_IO_|strchr", None)],
    ),
)
