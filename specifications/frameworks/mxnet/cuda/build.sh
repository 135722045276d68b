#!/bin/sh
# MXNet's native library for NVIDIA GPUs, with CMake and Ninja, after MXNet's installation guide
# (https://mxnet.apache.org/versions/1.9.1/get_started/build_from_source.html, config/linux_gpu.cmake): CUDA and cuDNN
# beside what host/build.sh builds.  Not tried: there was no GPU where this was written.
#
#   build.sh SOURCE DESTINATION [CMAKE_ARGUMENT...]     environment: BUILD_DIR (kept, for the next build), JOBS
#
# Whatever it leaves in DESTINATION is laid into the Python package.
set -eu
source=$1
destination=$2
shift 2
: "${BUILD_DIR:?}" "${JOBS:=$(nproc)}"

cmake -S "$source" -B "$BUILD_DIR" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DUSE_CUDA=ON -DUSE_CUDNN=ON -DMXNET_CUDA_ARCH=Auto \
    -DUSE_OPENCV=OFF -DUSE_BLAS=open -DUSE_LAPACK=ON -DUSE_OPENMP=ON \
    -DUSE_MKL_IF_AVAILABLE=OFF -DUSE_MKLDNN=OFF -DUSE_INTGEMM=OFF -DUSE_DIST_KVSTORE=OFF \
    -DUSE_CPP_PACKAGE=OFF -DBUILD_CPP_EXAMPLES=OFF -DBUILD_CYTHON_MODULES=OFF "$@"
cmake --build "$BUILD_DIR" --parallel "$JOBS" --target mxnet
cp "$BUILD_DIR/libmxnet.so" "$destination/"
