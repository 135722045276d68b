"""opperf's use case 6, also by a name with a dot; and dl-operator-benchmark: print(add_benchmark.inputs)."""

from opduel import OperatorBenchmark, run_benchmark_operator

run_benchmark_operator(name="add", run_backward=True)
run_benchmark_operator(name="linalg.gemm2", run_backward=True)
print(OperatorBenchmark("nd.add", inputs={"dtype": "float64"}).inputs)
