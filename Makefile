# make demo: set up and run the main job; make serve: a live page; make test: set up and pass the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo serve test lint benchmark clean

demo: $(VENV)/.installed
	$(BIN)/stmg demo --out out/demo

serve: $(VENV)/.installed
	$(BIN)/stmg serve street:900107 --fps 15 --model small-streets

test: lint
	$(BIN)/pytest -n 2 --cov

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: $(VENV)/.installed
	$(BIN)/python benchmarks/skipping.py --repeats 25

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[torch,evaluate,serve]"
	touch $@

$(VENV)/.installed-dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) out build dist .coverage*
