# make train   sets up .venv and runs the main job:  make train ARGS="--env HalfCheetah-v5 --total_env_steps 100000"
# make test    sets up .venv and runs every test
# make docs    builds the site into site/
# TORCH=cpu installs PyTorch's CPU build, TORCH=cu126 (or similar) a CUDA build; by default pip chooses, on Linux a CUDA
# build.
# make notebooks  creates examples/*.ipynb from examples/*.py; make pages runs them for the site
# make check   runs formatting, lint and type checks and the fast tests
PYTHON ?= python3
TORCH ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP = $(BIN)/python -m pip install --disable-pip-version-check
# Tests run in one process per core, at most four: each starts its own Ray. TESTERS=0 shows prints and breakpoints.
TESTERS ?= logical
PYTEST = $(BIN)/python -m pytest -n $(TESTERS) --maxprocesses 4 --dist worksteal
# Allow bytecode: without it, every test process compiles the whole package and all tests again.
export PYTHONDONTWRITEBYTECODE :=
CODE := interreplay replay_buffers tests cluster_deployment docs $(wildcard *.py benchmarks examples)

.PHONY: help install train test pytest docker-cpu docker-gpu check types quick smoke bench docs notebooks pages format clean
.DEFAULT_GOAL := help

help:
	@echo "make install | train | test | docker-cpu | docker-gpu | check | smoke | bench | docs | notebooks | pages | format | clean     (PYTHON=... picks the interpreter of a new .venv)"

install: $(STAMP)

# Repeated only when one of these files has changed.
$(STAMP): env/requirements.txt setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "interreplay needs Python 3.10 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)." \
	       "Pick another one: make install PYTHON=python3.11" >&2; exit 1; }
	@echo "installing into $(VENV); the first time this takes some minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifneq ($(TORCH),)
	@$(PIP) --index-url https://download.pytorch.org/whl/$(TORCH) "$$(grep '^torch==' env/requirements.txt)"
endif
	@$(PIP) -r env/requirements.txt
	@$(PIP) --no-deps -e .
	@touch $@

train: install
	$(BIN)/python custom_training.py --trainer SAC --knn_baseline $(ARGS)

# Lists the slowest tests; new slow tests should replace existing ones that test the same property.
test pytest: install
	$(PYTEST) --durations=40 --durations-min=5 $(ARGS)

# Type checks and tests run in parallel.
check: install
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(MAKE) --no-print-directory -j 2 types quick

types: install
	$(BIN)/mypy

quick: install
	$(PYTEST) -m "not slow and not slurm" $(ARGS)

smoke: install
	$(BIN)/python smoketest.py

# Installs the libraries used for comparison and prints the tables of benchmarks/RESULTS.md.
bench: install
	@$(PIP) -e ".[bench]"
	$(BIN)/python -m benchmarks $(ARGS)

# Images for the CPU and for CUDA; DOCKER=podman builds with Podman, see docs/containers.md.
DOCKER ?= docker

docker-cpu:
	$(DOCKER) build -f env/Dockerfile -t interreplay .

docker-gpu:
	$(DOCKER) build -f env/Dockerfile -t interreplay:cuda --build-arg TORCH=cu126 .

docs: install
	$(BIN)/mkdocs build --strict

notebooks: install
	$(BIN)/python examples/notebooks.py

pages: install
	$(BIN)/python examples/pages.py $(ARGS)

format: install
	$(BIN)/ruff check --fix --exit-zero $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check $(CODE)

# Keeps results.
clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
