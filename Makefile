# make demo: set up and run the main job; make serve: a live page; make test: set up and pass the tests;
# make docs: build the documentation; make benchmarks DATA=CAMVID: measure what BENCHMARKS.md shows.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo serve test coverage lint audit docs pictures benchmarks figures networks fuzz soak faults clean

demo: $(VENV)/.installed
	$(BIN)/stmg demo --out out/demo

serve: $(VENV)/.installed
	$(BIN)/stmg serve street:900107 --fps 15 --model small-streets

test: lint
	$(BIN)/pytest -n 2 --dist worksteal

coverage: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 --dist worksteal --cov

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Known vulnerabilities of the installed packages; fails where the index is not reached.
audit: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip-audit>=2.7"
	$(BIN)/pip-audit --skip-editable --timeout 15 --progress-spinner off

# Needs no network once it is set up; the pages are in out/site. The variable silences an advertisement.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: $(VENV)/.installed
	$(BIN)/python tools/pictures.py

# About four hours if nothing is there yet. ONLY=lite0: some of the runs; AGAIN=1: also those whose result is of this very
# code; LIST=1: how old each result is.
benchmarks: $(VENV)/.installed-benchmarks
	$(BIN)/python -m benchmarks $(if $(DATA),--data "$(DATA)") $(if $(ONLY),--only "$(ONLY)") \
		$(if $(AGAIN),--again) $(if $(LIST),--list)

# The tables and figures of the documents, from the results that are there.
figures: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks --write

# The table of networks in the documentation, from the networks that the tests run.
networks: $(VENV)/.installed-dev
	PYTHONPATH=tests $(BIN)/python -m networks_zoo.table

fuzz soak faults: $(VENV)/.installed-dev
	$(BIN)/python -m reliability.$@; code=$$?; $(BIN)/python -m reliability.report; exit $$code

# What each installs; dev holds all that the plain one does.
$(VENV)/.installed: EXTRAS := torch,evaluate,serve
$(VENV)/.installed-dev: EXTRAS := dev
$(VENV)/.installed-benchmarks: EXTRAS := all,int8
$(VENV)/.installed-docs: EXTRAS := docs

$(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-benchmarks $(VENV)/.installed-docs: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	touch $@ $(if $(filter dev,$(EXTRAS)),$(VENV)/.installed)

clean:
	rm -rf $(VENV) out/site out/demo build dist .coverage*
