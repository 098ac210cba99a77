#!/usr/bin/env bash
# Resolve all extras for Python 3.11 into requirements.lock, with hashes and without index addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install -q uv
"$scratch/venv/bin/uv" pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    --no-emit-index-url --extra dev --build-constraint /dev/null -o "$scratch/lock" pyproject.toml tools/build-requires.in
{ echo "# Made by tools/lock.sh from pyproject.toml (extra dev); do not edit."; cat "$scratch/lock"; } >requirements.lock
