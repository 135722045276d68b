#!/bin/sh
# The wheel of a Python package, by the package's own build backend (PEP 517), in an environment that has what it needs.
#
#   build.sh SOURCE DESTINATION [SETTING...]
#   environment: BUILD_DIR (kept, for the next build), JOBS, BUILD_PYTHON, BUILD_BACKEND, BUILD_BACKEND_PATH (folders
#     of the source, with colons), UV, CCACHE (empty for none), BUILD_COMMANDS (of an asv suite, for this shell; they
#     may leave a wheel in $destination)
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

own_environment() { # that may be changed: with what BUILD_PYTHON's has
    rm -rf "$BUILD_DIR/environment"
    "$UV" --directory / venv --quiet --seed --python "$BUILD_PYTHON" "$BUILD_DIR/environment"
    "$UV" --directory / pip install --quiet --python "$BUILD_DIR/environment" --requirements "$(dirname "$BUILD_PYTHON")/../requirements.txt"
    BUILD_PYTHON=$BUILD_DIR/environment/bin/python
    PATH=$BUILD_DIR/environment/bin:$PATH
}

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
    own_environment
    eval "$BUILD_COMMANDS"
    if ls "$destination"/*.whl >/dev/null 2>&1; then exit; fi
fi

# What the backend needs beside the project file's requirements (get_requires_for_build_wheel of PEP 517).
needed=$BUILD_DIR/backend-requirements.txt
rm -f "$needed"
(
    cd "$source"
    "$BUILD_PYTHON" - "$needed" "$@" <<'END'
import importlib
import os
import sys

path, *settings = sys.argv[1:]  # which setuptools overwrites
module, _, attributes = os.environ["BUILD_BACKEND"].partition(":")
sys.path[:1] = [folder for folder in os.environ.get("BUILD_BACKEND_PATH", "").split(":") if folder]
backend = importlib.import_module(module)
for attribute in attributes.split(".") if attributes else ():
    backend = getattr(backend, attribute)
hook = getattr(backend, "get_requires_for_build_wheel", lambda settings: [])
requirements = hook(dict(setting.split("=", 1) for setting in settings))
with open(path, "w") as file:
    file.write("".join(requirement + "\n" for requirement in requirements))
END
) || rm -f "$needed" # building fails for the same reason, and says it
is_there() {
    "$UV" --directory / pip install --dry-run --python "$BUILD_PYTHON" --requirements "$needed" 2>&1 | grep -q "Would make no changes"
}
if [ -s "$needed" ] && ! is_there; then
    echo "the build backend also needs: $(tr '\n' ' ' <"$needed")"
    case $BUILD_PYTHON in "$BUILD_DIR"/environment/*) ;; *) own_environment ;; esac
    versions=$BUILD_DIR/backend-versions.txt # of the build before, so that both sides are built with the same
    touch "$versions"
    add_needed() { "$UV" --directory / pip install --quiet --python "$BUILD_PYTHON" --requirements "$needed" "$@"; }
    add_needed --constraints "$versions" || add_needed
    "$UV" --directory / pip freeze --python "$BUILD_PYTHON" >"$versions"
fi
for setting in "$@"; do
    set -- "$@" "--config-setting=$setting"
    shift
done
cd "$source"
exec "$UV" build --wheel --no-build-isolation --offline --no-config --python "$BUILD_PYTHON" --out-dir "$destination" "$@" .
