#!/bin/sh
# Makes the virtual environment named by $1 from the lock files, with hashes, and installs penstock
# into it. Needs Python 3.11 or later. Installs Python's venv, a C compiler and Python's headers
# from Debian's packages where they are missing and it may; without a compiler the hot functions
# are interpreted. With CC set nothing is installed for the compiler.
set -eu
venv=${1:?name of the virtual environment}

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    echo "setup: Python 3.11 or later is needed: sudo apt-get install python3" >&2
    exit 1
}

# What is missing, as Debian calls it; it keeps venv and headers in packages of their own.
missing_packages() {
    version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "$version-venv"
    if [ -z "${CC:-}" ]; then
        command -v cc >/dev/null || command -v gcc >/dev/null || echo "gcc libc6-dev"
        "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
            echo "$version-dev"
    fi
    command -v git >/dev/null || echo git
}

# Installs what is missing where it may, else says what to do; only venv is indispensable.
need_packages() {
    missing=$(missing_packages | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root="sudo -n"
        sudo -n true 2>/dev/null || as_root=no
    fi
    if [ "$as_root" != no ] && command -v apt-get >/dev/null; then
        echo "setup: installing $missing"
        apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300"
        $progress setup $apt update || true
        # shellcheck disable=SC2086  the words are the arguments
        $progress setup $apt install --no-install-recommends $missing || true
    fi
    left=$(missing_packages | tr '\n' ' ')
    [ -z "$left" ] || echo "setup: missing: sudo apt-get install $left" >&2
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # What is to be installed beside the packages is told now, not after the next attempt.
        [ -z "${BESIDE:-}" ] || $BESIDE || true
        exit 1
    fi
}

python=$(find_python)
progress="$python tools/progress.py"
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    need_packages
    echo "setup: making $venv with $("$python" --version)"
    $progress setup "$python" -m venv --clear "$venv"
fi

# What is being downloaded lies here, so that it is seen to grow, and is on the same disk.
mkdir -p "$venv/tmp"
TMPDIR=$(cd "$venv/tmp" && pwd)
export TMPDIR
trap 'rm -rf "$venv/tmp"' EXIT

# Spark comes as a source package of 0.4 GB that pip packs and unpacks again: beside all the others.
# So does what BESIDE names, such as tools/java.sh.
beside=
if [ -n "${BESIDE:-}" ]; then
    $BESIDE &
    beside=$!
fi
echo "setup: installing the pinned packages (about 1 GB at the first time, mostly Spark)"
pip="$venv/bin/python -m pip --disable-pip-version-check --no-input"
install="$progress setup --in $TMPDIR $pip install --progress-bar off --no-compile"
$install --require-hashes -r requirements/build.lock
if "$venv/bin/python" -m pip --disable-pip-version-check show --quiet pyspark 2>/dev/null; then
    $install --require-hashes --no-build-isolation -r requirements/all.lock
else
    awk '/^[^ ]/ { inside = /^pyspark==/ } inside' requirements/all.lock >"$TMPDIR/spark.lock"
    awk '/^[^ ]/ { inside = /^pyspark==/ } !inside' requirements/all.lock >"$TMPDIR/others.lock"
    $pip wheel --quiet --progress-bar off --no-deps --no-build-isolation --require-hashes \
        --wheel-dir "$TMPDIR/wheels" -r "$TMPDIR/spark.lock" &
    spark=$!
    $install --require-hashes --no-deps -r "$TMPDIR/others.lock"
    $progress setup --in "$TMPDIR" sh -c 'while kill -0 "$1" 2>/dev/null; do
        echo "Spark, from its source package"; sleep 1; done' wait "$spark"
    wait "$spark"
    $install --no-deps "$TMPDIR"/wheels/*.whl
fi
$install --no-deps --no-build-isolation --editable .
# All cores at once, where pip takes one; and ours too, which pip leaves out as it is editable:
# else a start compiles all modules that it imports. Some packages bring files for other Pythons.
$progress setup "$venv/bin/python" -c '
import compileall, sys
print("storing byte code, so that nothing is compiled when it starts", flush=True)
compileall.compile_dir(sys.argv[1], quiet=2, workers=0)
compileall.compile_dir("src", quiet=2, workers=0)' "$venv/lib"

[ -z "$beside" ] || wait "$beside" || true # its own target says what is wrong
"$venv/bin/python" -c '
from penstock.node.pages.build_info import COST, compiled_text
text = compiled_text()
print("setup: done; the hot functions are", text if text == "compiled" else f"{text}: {COST}")'
