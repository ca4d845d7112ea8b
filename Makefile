# Two commands: `make run` and `make test`. Each installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
LESSONS ?=

help:  ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 24

run: .venv/run  ## run every notebook, or LESSONS="03 06", and render build/site/index.html
	$(BIN)/python scripts/run.py $(LESSONS)

test: .venv/test  ## the tests (under 20 minutes on 2 cores)
	$(BIN)/python -m pytest

test-all: test mutants  ## the tests, every mutant, and all notebooks with their full parameters
	$(BIN)/python scripts/run.py "" solutions/

mutants: .venv/test  ## break every program in every way; each notebook must notice
	$(BIN)/python tests/test_mutants.py

bench: .venv/test  ## measure the ratios that the course speaks of (two minutes on 2 cores)
	$(BIN)/python scripts/bench.py

build: .venv/test  ## make the notebooks from notebooks/src and scripts/lessons
	$(BIN)/python scripts/build.py

outputs: build  ## run lessons and solutions one by one (they measure speed), and keep what they printed and drew
	$(BIN)/python scripts/run.py --outputs --jobs 1 $(or $(LESSONS),"" solutions/)

kaggle: build  ## push every notebook to Kaggle, or some: OWNER=your-kaggle-name LESSONS="03 06"
	$(BIN)/python scripts/publish.py --owner "$(OWNER)" $(LESSONS)

lab: .venv/run  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "make: $(PYTHON) is not Python 3.11, 3.12 or 3.13: name one, as in \`make run PYTHON=python3.12\`"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "make: $(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)"; exit 1; }
	@touch $@

.venv/run: requirements.txt | .venv/python
	@echo "Installing what the notebooks need into .venv (torch alone is 5 GB: about two minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/test: tests/requirements.txt .venv/run
	@echo "Installing what building and testing need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	@touch $@

.PHONY: help run test test-all mutants bench build outputs kaggle lab
