#!/bin/sh
# The wheel of a Python package, by the package's own build backend (PEP 517), in an environment that has what it needs.
#
#   build.sh SOURCE DESTINATION [SETTING...]
#   environment: BUILD_DIR (kept, for the next build), JOBS, BUILD_PYTHON, BUILD_BACKEND, UV, CCACHE (empty for none),
#     BUILD_COMMANDS (of an asv suite, for this shell; they may leave a wheel in $destination)
#
# A SETTING is one of the backend's, KEY=VALUE.  meson-python and scikit-build-core keep their build folder, and compile
# only what changed; for the others ccache makes the next build short.
set -eu
source=$1
destination=$2
shift 2
: "${BUILD_DIR:?}" "${JOBS:=$(nproc)}" "${BUILD_PYTHON:?}" "${UV:?}"

PATH=$(dirname "$BUILD_PYTHON"):$PATH
CMAKE_BUILD_PARALLEL_LEVEL=$JOBS
MAX_JOBS=$JOBS
NPY_NUM_BUILD_JOBS=$JOBS
SKLEARN_BUILD_PARALLEL=$JOBS
export PATH CMAKE_BUILD_PARALLEL_LEVEL MAX_JOBS NPY_NUM_BUILD_JOBS SKLEARN_BUILD_PARALLEL

case ${BUILD_BACKEND:-} in
mesonpy)
    set -- "build-dir=$BUILD_DIR/meson" "compile-args=-j$JOBS" "$@"
    ;;
scikit_build_core.build)
    set -- "build-dir=$BUILD_DIR/cmake" "$@"
    ;;
esac
case ${BUILD_BACKEND:-} in
scikit_build_core.build) ;; # CMake has variables of its own for ccache
*)
    if [ -n "${CCACHE:-}" ]; then
        CC="ccache cc"
        CXX="ccache c++"
        export CC CXX
    fi
    ;;
esac
if [ -n "${BUILD_COMMANDS:-}" ]; then # in an environment like asv's, which they may change
    ASV=true ASV_BUILD_DIR=$source ASV_BUILD_CACHE_DIR=$destination ASV_ENV_DIR=$BUILD_DIR/environment
    export ASV ASV_BUILD_DIR ASV_BUILD_CACHE_DIR ASV_ENV_DIR
    rm -rf "$ASV_ENV_DIR"
    "$UV" --directory / venv --quiet --seed --python "$BUILD_PYTHON" "$ASV_ENV_DIR"
    "$UV" --directory / pip install --quiet --python "$ASV_ENV_DIR" --requirements "$(dirname "$BUILD_PYTHON")/../requirements.txt"
    BUILD_PYTHON=$ASV_ENV_DIR/bin/python
    PATH=$ASV_ENV_DIR/bin:$PATH
    eval "$BUILD_COMMANDS"
    if ls "$destination"/*.whl >/dev/null 2>&1; then exit; fi
fi
for setting in "$@"; do
    set -- "$@" "--config-setting=$setting"
    shift
done
cd "$source"
exec "$UV" build --wheel --no-build-isolation --offline --no-config --python "$BUILD_PYTHON" --out-dir "$destination" "$@" .
