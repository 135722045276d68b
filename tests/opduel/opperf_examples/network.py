"""MXNet's profiler tutorial: a small network."""

from mxnet.gluon import nn

from opduel import run_performance_test

net = nn.HybridSequential()
net.add(
    nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
    nn.MaxPool2D(pool_size=2, strides=2),
    nn.Flatten(),
    nn.Dense(128, activation="relu"),
    nn.Dense(10),
)
net.initialize()
net.hybridize()
print(run_performance_test(net, inputs=[{"data": (8, 1, 28, 28)}], warmup=2, runs=5))
