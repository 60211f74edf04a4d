#!/bin/sh
# Makes the virtual environment named by $1 from the lock files, with hashes, and installs penstock
# into it. Needs Python 3.11 or later; a C compiler is used where there is one.
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

# Debian keeps venv and ensurepip in a package of their own.
need_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root="sudo -n"
        sudo -n true 2>/dev/null || as_root=no
    fi
    if [ "$as_root" = no ] || ! command -v apt-get >/dev/null; then
        echo "setup: Python's venv module is missing: sudo apt-get install $package" >&2
        exit 1
    fi
    echo "setup: installing $package"
    $as_root apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null || true
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "$package" >/dev/null
}

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    need_venv "$python"
    echo "setup: making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi

pip="$venv/bin/python -m pip --disable-pip-version-check --quiet --no-input"
echo "setup: installing the pinned packages (about 1 GB at the first time, mostly Spark)"
install="$pip install --no-compile"
$install --require-hashes -r requirements/build.lock
$install --require-hashes --no-build-isolation -r requirements/all.lock
$install --no-deps --no-build-isolation --editable .
# All cores at once, where pip takes one; and ours too, which pip leaves out as it is editable:
# else a start compiles all modules that it imports. Some packages bring files for other Pythons.
"$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" src || true

if "$venv/bin/python" -c 'import penstock.record._columns, penstock.protocol._produce' 2>/dev/null; then
    echo "setup: done; the hot functions are compiled"
else
    echo "setup: done; the hot functions are interpreted (faster with: sudo apt-get install gcc python3-dev, then make clean setup)"
fi
