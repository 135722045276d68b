#!/bin/sh
# MXNet's native library for this host's CPU, with CMake and Ninja, after MXNet's installation guide
# (https://mxnet.apache.org/versions/1.9.1/get_started/build_from_source.html, config/linux.cmake): OpenBLAS and LAPACK;
# without CUDA, OpenCV, the distributed kvstore, and, because they double the time it takes, oneDNN and intgemm.
#
#   build.sh SOURCE DESTINATION [CMAKE_ARGUMENT...]     environment: BUILD_DIR (kept, for the next build), JOBS
#
# Whatever it leaves in DESTINATION is laid into the Python package.  Needs git, cmake, ninja, gcc and OpenBLAS with
# LAPACK (on Debian: cmake ninja-build g++ libopenblas-dev liblapack-dev); uses ccache where it is installed.
set -eu
source=$1
destination=$2
shift 2
: "${BUILD_DIR:?}" "${JOBS:=$(nproc)}"

cmake -S "$source" -B "$BUILD_DIR" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DUSE_CUDA=OFF -DUSE_OPENCV=OFF -DUSE_BLAS=open -DUSE_LAPACK=ON -DUSE_OPENMP=ON \
    -DUSE_MKL_IF_AVAILABLE=OFF -DUSE_MKLDNN=OFF -DUSE_INTGEMM=OFF -DUSE_DIST_KVSTORE=OFF \
    -DUSE_CPP_PACKAGE=OFF -DBUILD_CPP_EXAMPLES=OFF -DBUILD_CYTHON_MODULES=OFF "$@"
cmake --build "$BUILD_DIR" --parallel "$JOBS" --target mxnet
cp "$BUILD_DIR/libmxnet.so" "$destination/"
