#!/bin/bash
# Usage: compile_kernels.sh NVCC SOURCE_ROOT OUTPUT_FOLDER KERNEL.cpp...
# Compiles row kernels as CUDA for sm_80 and sm_90. Fails on a warning, and on a kernel that spills
# registers or uses a stack, which would make every access of a row go through local memory.
set -euo pipefail

nvcc=$1 source_root=$2 output=$3
shift 3
if [ $# -eq 0 ]; then
  echo "no row kernels to compile" >&2
  exit 1
fi

compile() {
  local nvcc=$1 source_root=$2 output=$3 source=$4
  local name log
  name=$(basename "$source" .cpp)
  log=$output/$name.log
  if ! "$nvcc" -std=c++20 -x cu -O3 --extended-lambda --expt-relaxed-constexpr \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -Xptxas -v,-warn-spills,-warn-lmem-usage -Werror all-warnings \
    -DFATHOM_GPU -I "$source_root" -c "$source" -o "$output/$name.o" >"$log" 2>&1; then
    echo "$name: does not compile:" >&2
    cat "$log" >&2
    return 1
  fi
  local kernels
  kernels=$(grep -c 'bytes stack frame' "$log") || true
  if [ "$kernels" -eq 0 ]; then
    echo "$name: no kernel in the log of ptxas ($log)" >&2
    return 1
  fi
  if grep 'bytes stack frame' "$log" |
    grep -vq '^ *0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'; then
    echo "$name: a kernel spills registers or uses a stack:" >&2
    grep -B 2 'bytes stack frame' "$log" >&2
    return 1
  fi
  local registers
  registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$log" | sort -n | tail -1)
  echo "$name: $kernels kernels, at most $registers registers"
}
export -f compile

mkdir -p "$output"
printf '%s\0' "$@" |
  xargs -0 -P "$(nproc)" -I '{}' bash -c 'compile "$@"' compile "$nvcc" "$source_root" "$output" '{}'
