# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all bench scale soak check site docs notebook reports format clean setup

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Paceline needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,spark,dev]'
	touch $@

demo: $(READY)
	$(BIN)/python demo.py

check: $(READY)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(SITE)

# Warnings count as errors (`strict` in mkdocs.yml), but only those that are printed: do not add --quiet.
SITE = NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# The documentation site, in site/: open site/index.html.
site: $(READY)
	$(SITE)

# Tests that measure nothing share the cores; those marked `alone` have the machine for themselves.
test: check
	$(BIN)/pytest -m 'not slow and not alone' -n auto --dist loadfile
	$(BIN)/pytest -m 'not slow and alone'

test-all: check
	$(BIN)/pytest -m 'not alone' -n auto --dist loadfile
	$(BIN)/pytest -m 'alone'

bench: $(READY)
	$(BIN)/python -m bench

# Start-up, throughput and the controller's own use of CPU and memory with 3 to 64 workers; writes docs/scale.md.
scale: $(READY)
	$(BIN)/python -m bench scale --page docs/scale.md

# Faults at random over many small runs, until something is not as it must be: make soak MINUTES=60 SEED=1
MINUTES ?= 60
soak: $(READY)
	$(BIN)/python -m soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

docs: $(READY)
	$(BIN)/python docs/support.py
	$(BIN)/python docs/options.py
	$(BIN)/python docs/python_api.py
	$(BIN)/python docs/dashboard.py

# Runs docs/guide/notebook.ipynb again and writes its outputs and its page.
notebook: $(READY)
	$(BIN)/python docs/notebook.py

# Makes every recipe's small form that is not in runs/ yet, which takes half an hour, and writes docs/reports.md.
reports: $(READY)
	$(BIN)/python docs/reports.py runs

format: $(READY)
	$(BIN)/ruff check --no-cache --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis
