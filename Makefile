# make demo: set up and run the main job; make test: set up and pass the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint benchmark fuzz soak faults clean

demo: $(VENV)/.installed
	$(BIN)/stmg demo --out out/demo

test: lint
	$(BIN)/pytest -n 2 --cov

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmark: $(VENV)/.installed
	$(BIN)/python benchmarks/skipping.py --repeats 25

fuzz soak faults: $(VENV)/.installed-dev
	$(BIN)/python -m reliability.$@; code=$$?; $(BIN)/python -m reliability.figures; exit $$code

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[torch,evaluate]"
	touch $@

$(VENV)/.installed-dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) out build dist .coverage*
