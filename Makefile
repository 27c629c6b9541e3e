# Needs Python 3.11 or newer, pip and make; everything else goes into .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PARTS := retrievers rerankers compressors api eval
TYPED := .mypy_cache/src
SERVE ?=
PYTEST ?=
EXAMPLES ?= 100

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test test-e2e fuzz lint format clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED)  ## Install into .venv (once, and again when pyproject.toml or constraints.txt change)

# Plain editable mode on purpose: in strict mode the folder rag/ in the working directory would shadow the install.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; \
	v >= (3, 11) or sys.exit("Python %d.%d found; 3.11 or newer is needed. Try: make PYTHON=python3.12 ..." % v[:2])'
	@test -x $(BIN)/pip || { echo "==> [1/2] Making $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> [2/2] Installing this project and its dependencies into $(VENV) (first time: a few minutes)"
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
	@echo "==> Installed. From now on this step is skipped."

demo: $(INSTALLED)  ## See it at work: real questions over 60 passages, through the real service
	@$(BIN)/rag demo

serve: $(INSTALLED)  ## Start the HTTP service (options: make serve SERVE='--port 9000')
	@$(BIN)/rag serve $(SERVE)

# Two processes of one thread each: torch with two threads on two cores is far from twice as fast.
test: lint  ## Lint, then run all tests (options: make test PYTEST='-k api')
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST)

# Chromium is Debian's (installed here where make runs as root), or the one that CHROMIUM names.
test-e2e: $(INSTALLED)  ## Look at the playground in a real Chromium, and take the screenshots in docs/
	@test -n "$(CHROMIUM)" || command -v chromium || command -v chromium-browser || command -v google-chrome || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; \
	  else echo "No Chromium found. Try: sudo apt-get install chromium, or: CHROMIUM=/path/to/it make test-e2e"; exit 1; fi; }
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
	  $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt playwright
	$(BIN)/python -m pytest tests/e2e --timeout 900 $(PYTEST)

# tests/api/test_schema.py with many requests, others each time; every fault comes with the curl command that shows it.
fuzz: $(INSTALLED)  ## Send the service what its OpenAPI document allows, and what not (options: make fuzz EXAMPLES=1000)
	OMP_NUM_THREADS=1 FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/api/test_schema.py --timeout 0 $(PYTEST)

lint: $(INSTALLED)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# The folders beside rag/ are imported as rag.NAME: a tree of links shows mypy what an import sees.
	@rm -rf $(TYPED) && mkdir -p $(TYPED)/rag && ln -s $(CURDIR)/rag/* $(addprefix $(CURDIR)/,$(PARTS)) $(TYPED)/rag
	cd $(TYPED) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir .. -p rag

format: $(INSTALLED)  ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what builds and tests leave behind (keeps .venv and downloaded models)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
