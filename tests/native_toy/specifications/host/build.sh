#!/bin/sh
# The toy's library: build.sh SOURCE DESTINATION [CMAKE_ARGUMENT...]; environment: BUILD_DIR, JOBS.
set -eu
source=$1
destination=$2
shift 2
cmake -S "$source" -B "$BUILD_DIR" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@"
cmake --build "$BUILD_DIR" --parallel "$JOBS" --target toy
cp "$BUILD_DIR/libtoy.so" "$destination/"
