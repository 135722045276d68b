"""dl-operator-benchmark and the design document: run_all_arithmetic_operations_benchmarks()."""

from opduel import run_category_benchmarks

ARITHMETIC = ["nd.add", "nd.multiply", "nd.subtract", "nd.divide", "nd.modulo", "nd.power"]
print(run_category_benchmarks("binary_elementwise", operators=ARITHMETIC, warmup=1, runs=3))
print(run_category_benchmarks("unary", operators=["nd.negative"], warmup=1, runs=3))
print(run_category_benchmarks("inplace", warmup=1, runs=3))
