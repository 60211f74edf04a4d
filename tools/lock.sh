#!/bin/sh
# Writes the lock files anew: every version that pyproject.toml needs, with hashes, for Python 3.11
# and later on any platform. The lock names packages and hashes, and no address to get them from.
# `tools/lock.sh .venv keep` adds what pyproject.toml newly names and keeps every other version.
set -eu
venv=${1:?name of the virtual environment}
upgrade=--upgrade
if [ "${2:-}" = keep ]; then upgrade=; fi

"$venv/bin/python" -m pip --disable-pip-version-check --quiet install uv
compile() {
    "$venv/bin/uv" pip compile --quiet $upgrade --universal --python-version 3.11 \
        --generate-hashes --no-header --no-annotate "$@"
}
printf 'setuptools>=80\nwheel\nCython>=3.1\n' | compile --output-file requirements/build.lock -
compile --all-extras --output-file requirements/all.lock pyproject.toml
printf 'matplotlib>=3.10\n' | compile --output-file requirements/plots.lock -
printf 'atheris>=3\n' | compile --output-file requirements/fuzz.lock -
