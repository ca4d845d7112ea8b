# Two commands: `make run` and `make test`. Each installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
LESSONS ?=

help:  ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 24

run: .venv/run  ## run every notebook, or LESSONS="03 06", and render build/site/index.html
	$(BIN)/python scripts/run.py $(LESSONS)

test: .venv/test .venv/kaggle/ready  ## the tests (some 30 minutes on 2 cores)
	$(BIN)/python -m pytest

test-all: test mutants  ## the tests, every mutant, and all notebooks with their full parameters
	$(BIN)/python scripts/run.py "" solutions/

test-kaggle: .venv/test .venv-kaggle/ready  ## every notebook with Kaggle's packages, in folders like Kaggle's
	$(BIN)/python -m pytest -m "" tests/tools/test_kaggle.py
	$(BIN)/python tests/tools/test_kaggle.py

mutants: .venv/test  ## break every program in every way; each notebook must notice
	$(BIN)/python tests/campaigns/test_mutants.py

faults: .venv/test  ## kill trainings, notebooks and the tools 200 times, fill their disks, spoil their files
	$(BIN)/python tests/campaigns/faults.py

bench: .venv/test  ## measure the ratios that the course speaks of; more: PARTS="--frameworks"
	$(BIN)/python scripts/bench.py $(PARTS)

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

# Kaggle's Jupyter around our torch: in seconds what one lesson needs to be tested there.
.venv/kaggle/ready: tests/kaggle-requirements.txt .venv/test
	@echo "Installing Kaggle's Jupyter into .venv/kaggle"
	@$(BIN)/python -m venv --clear .venv/kaggle
	@grep -v torch tests/kaggle-requirements.txt \
		| .venv/kaggle/bin/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin
	@ours=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		.venv/kaggle/bin/python -c "import site; open(site.getsitepackages()[0] + '/ours.pth', 'w').write('$$ours')"
	@touch $@

.venv-kaggle/ready: tests/kaggle-requirements.txt | .venv/python
	@echo "Installing Kaggle's packages into .venv-kaggle (torch alone is 5 GB: about two minutes)"
	@$(BIN)/python -m venv --clear .venv-kaggle
	@.venv-kaggle/bin/python -m pip install --quiet --disable-pip-version-check -r tests/kaggle-requirements.txt
	@touch $@

.PHONY: help run test test-all test-kaggle mutants faults bench build outputs kaggle lab
