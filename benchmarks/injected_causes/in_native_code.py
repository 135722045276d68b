"""Causes in native code."""

from benchmarks.injected_causes.cause import Cause, Truth, vector

# What ctypes calls, whose lines that call, or compare what was returned, are a part of the cause.
CALLER = "sn_|ctypes|libffi"
NATIVE = (
    Cause(
        "extra copy",
        "extra copy",
        "C",
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
    Cause(
        "no fast path for contiguous data",
        "lost fast path",
        "C",
        "total",
        vector(8192),
        [("    if (stride == sizeof(double)) return total_contiguous(x, n);\n", "")],
        [Truth("total_strided|total_contiguous")],
    ),
    Cause(
        "a loop that is no longer vectorized",
        "slower inner loop",
        "C",
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
    Cause(
        "a workspace that is mapped for each call",
        "allocation",
        "C",
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
    Cause(
        "a lock for each element",
        "lock",
        "C",
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
    Cause(
        "a second pass over the data",
        "extra pass",
        "C",
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
    Cause(
        "a check of every element",
        "O(n) check",
        "C",
        "dot",
        {
            "one": {"call": "numpy.random.rand", "args": [{"value": 8192}]},
            "other": {"call": "numpy.random.rand", "args": [{"value": 8192}]},
        },
        [
            (
                "    return dot_kernel(x, y, n);\n",
                "    return all_finite(x, n) && all_finite(y, n) ? dot_kernel(x, y, n) : NAN;\n",
            )
        ],
        [Truth("all_finite")],
    ),
    Cause(
        "a function that is no longer inlined",
        "not inlined",
        "C",
        "polynomial",
        {**vector(4096), "coefficients": {"call": "numpy.random.rand", "args": [{"value": 4}]}},
        [("static inline double horner", "static NOINLINE double horner")],
        [Truth("horner|sn_polynomial", parts=f"horner|{CALLER}")],
    ),
    Cause(
        "a helper that is called twice",
        "more calls",
        "C",
        "weigh",
        vector(2048),
        [("x[i] * weight_of(x[i])", "(weight_of(x[i] + 1) > 0 ? x[i] * weight_of(x[i]) : 0)")],
        [Truth("weight_of", parts=f"weight_of|{CALLER}")],
    ),
    Cause(
        "a system call for each block",
        "system call",
        "C",
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
    Cause(
        "insertion where division is quicker",
        "slower sort",
        "C",
        "sort",
        vector(2000),
        [("#define SMALL_RANGE 12", "#define SMALL_RANGE 200")],
        [Truth("insertion_sort|sort_range")],
    ),
    Cause(
        "a hash byte by byte",
        "slower hash",
        "C",
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
    Cause(
        "pow for a product",
        "slower primitive",
        "C",
        "cube",
        vector(4096),
        [("out[i] = x[i] * x[i] * x[i];", "out[i] = pow(x[i], 2.9999);")],
        [Truth("pow", parts=f"pow|{CALLER}")],
    ),
    Cause(
        "across the memory",
        "access pattern",
        "C",
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
    Cause(
        "a function with another name, and slower",
        "renamed",
        "C",
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
    Cause(
        "two loops with more turns, 7 to 3",
        "two causes",
        "C",
        "mix",
        vector(16),
        [("#define STIRS 6000", "#define STIRS 13000"), ("#define FOLDS 4000", "#define FOLDS 7000")],
        [Truth("stir", 0.7), Truth("fold", 0.3)],
    ),
    Cause(
        "one loop with more turns, another with fewer",
        "two causes",
        "C",
        "mix",
        vector(16),
        [("#define STIRS 6000", "#define STIRS 14000"), ("#define FOLDS 4000", "#define FOLDS 2000")],
        [Truth("stir", 8 / 6), Truth("fold", -2 / 6)],
    ),
    Cause(
        "a message that nobody reads, in C",
        "message",
        "C",
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
