# Two commands: `make run` and `make test`. Each installs what it needs into .venv, once.
PYTHON ?= python3
BIN := .venv/bin
LESSONS ?=
LESSON ?=
CONSTRAINTS ?= constraints.txt
PIP := -m pip install --quiet --disable-pip-version-check

help:  ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 24

run: .venv/run  ## run every notebook, or LESSONS="03 06", and build the site from their outputs; PLAIN=1: launches as readers have them
	@$(BIN)/python scripts/run_course.py $(if $(PLAIN),--plain) $(LESSONS)

site: .venv/run  ## build build/site/index.html from the kept outputs, without running anything
	$(BIN)/python scripts/site_build.py

test: style .venv/kaggle/ready  ## all tests, the linter first
	$(BIN)/python -m pytest -n 2

check: style  ## in a minute: style, derived files, and all tests that start no rank
	$(BIN)/python scripts/build.py --check
	$(BIN)/python scripts/build_minutes.py
	$(BIN)/python -m pytest -q -m "quick and not thorough"

style: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_style.py

test-all: test mutants launch-faults  ## the tests, every mutant, and all notebooks with their full parameters
	$(BIN)/python -m pytest -m thorough tests/lessons
	$(BIN)/python scripts/run.py "" solutions/

test-kaggle: .venv/test .venv-kaggle/ready  ## every notebook with Kaggle's packages, in folders like Kaggle's
	$(BIN)/python -m pytest -m "" tests/tools/test_kaggle.py

mutants: .venv/test  ## change what programs compute, line by line; a test or launch must notice each
	$(BIN)/python tests/campaigns/mutants.py --green $(LESSONS)

launch-faults: .venv/test  ## let every launch fail in five ways; each notebook must notice
	$(BIN)/python tests/campaigns/test_launch_faults.py

aborts: .venv/test  ## 500 launches on gloo: does a rank die after its work? And 40 without the cure
	$(BIN)/python tests/campaigns/aborts.py

one-gpu: .venv/test  ## lessons on one GPU, which two ranks share over gloo; over nccl: PARTS="--nccl"
	$(BIN)/python tests/campaigns/one_gpu.py $(PARTS) $(LESSONS)

forks: .venv/test  ## do forked launches of a lesson compute what plain ones compute? All, or LESSONS="06"
	$(BIN)/python tests/campaigns/forked.py $(LESSONS)

faults: .venv/test  ## kill trainings, notebooks and the tools 200 times, fill their disks, spoil their files
	$(BIN)/python tests/campaigns/faults.py

cluster: .venv/test  ## lessons 13 and 14 on real parts: slow links, Slurm, TorchX, Prometheus, manifests
	$(BIN)/python tests/campaigns/cluster/probe.py
	@$(MAKE) --no-print-directory .venv-cluster/ready
	$(BIN)/python -m pytest -m cluster tests/campaigns/cluster

bench: .venv/test  ## measure the ratios that the course speaks of; more: PARTS="--frameworks"
	$(BIN)/python scripts/bench.py $(PARTS)

speedrun: .venv/test  ## from the tutorials' training to the fastest, change by change: PARTS="--data FOLDER"
	$(BIN)/python scripts/speedrun.py $(PARTS)

programs: .venv/test  ## the programs of one lesson, solved, into build/: LESSON=06
	$(BIN)/python scripts/build.py --programs $(LESSON)

build: .venv/test  ## make the notebooks from notebooks/src and scripts/lessons
	$(BIN)/python scripts/build.py

outputs: build  ## run lessons and solutions one by one (they measure speed), and keep what they printed and drew
	$(BIN)/python scripts/run.py --outputs --jobs 1 $(or $(LESSONS),"" solutions/)
	$(BIN)/python scripts/build.py  # the lessons' minutes count what their launches took

kaggle: build  ## push every notebook to Kaggle, or some: OWNER=your-kaggle-name LESSONS="03 06"
	$(BIN)/python scripts/publish.py --owner "$(OWNER)" $(ALL) $(LESSONS)

grade: .venv/test  ## run a class's notebooks again, each in a sandbox, and tell who solved what: DIR=submissions
	$(BIN)/python scripts/grade.py "$(DIR)" $(OPTIONS)

lab: .venv/run  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "make: $(PYTHON) is not Python 3.11, 3.12 or 3.13: name one, as in \`make run PYTHON=python3.12\`"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "make: $(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)"; exit 1; }
	@touch $@

.venv/run: requirements.txt $(CONSTRAINTS) | .venv/python .venv/frameworks/ready
	@echo "Installing what the notebooks and the site need into .venv (torch alone is 5 GB: about two minutes)"
	@$(BIN)/python $(PIP) -r requirements.txt -c $(CONSTRAINTS)
	@touch $@

.venv/test: tests/requirements.txt .venv/run
	@echo "Installing what building and testing need"
	@$(BIN)/python $(PIP) -r tests/requirements.txt -c $(CONSTRAINTS)
	@touch $@

# What lesson 22 compares, in a folder of its own. Without it, that lesson shows runs that were kept.
.venv/frameworks/ready: scripts/lessons/22_frameworks/fetch.py | .venv/python
	@echo "Installing Accelerate, Lightning and DeepSpeed for lesson 22 into .venv/frameworks"
	@rm -rf .venv/frameworks
	@$(BIN)/python $< .venv/frameworks && touch $@ || echo "make: lesson 22 shows kept runs of what is missing"

# Kaggle's Jupyter around our torch: in seconds what one lesson needs to be tested there.
.venv/kaggle/ready: tests/kaggle-requirements.txt .venv/test
	@echo "Installing Kaggle's Jupyter into .venv/kaggle"
	@$(BIN)/python -m venv --clear .venv/kaggle
	@grep -v torch tests/kaggle-requirements.txt \
		| .venv/kaggle/bin/python $(PIP) -r /dev/stdin
	@ours=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		.venv/kaggle/bin/python -c "import site; open(site.getsitepackages()[0] + '/ours.pth', 'w').write('$$ours')"
	@touch $@

.venv-kaggle/ready: tests/kaggle-requirements.txt | .venv/python
	@echo "Installing Kaggle's packages into .venv-kaggle (torch alone is 5 GB: about two minutes)"
	@$(BIN)/python -m venv --clear .venv-kaggle
	@.venv-kaggle/bin/python $(PIP) -r tests/kaggle-requirements.txt
	@touch $@

.venv-cluster/ready: tests/cluster-requirements.txt | .venv/python
	@echo "Installing TorchX and the schemas of manifests into .venv-cluster"
	@$(BIN)/python -m venv --clear .venv-cluster
	@.venv-cluster/bin/python $(PIP) -r tests/cluster-requirements.txt
	@touch $@

.PHONY: help run site test check style test-all test-kaggle mutants launch-faults aborts one-gpu forks faults cluster bench speedrun programs build outputs kaggle grade lab
