# Two commands: `make run` and `make test`. Each installs what it needs into .venv, once: first what
# words need (.venv/build, no torch), then what notebooks need (.venv/run), then all tests (.venv/test).
PYTHON ?= python3
BIN := .venv/bin
LESSONS ?=
LESSON ?=
# Many systems have an environment variable LANGUAGE, which means another thing.
ifneq ($(origin LANGUAGE),command line)
LANGUAGE :=
endif
CONSTRAINTS ?= constraints.txt
# Campaigns that have a command of their own.
ALONE := campaigns/test_mutants campaigns/test_launch_faults tools/kaggle/test_kaggle
# Where a Python of ours finds the course's tools: a line in its site-packages.
FIND_COURSE := -c 'import os, sysconfig; \
	place = sysconfig.get_path("purelib"); \
	open(place + "/course.pth", "w").write(os.path.relpath("scripts", place))'
PIP := -m pip install --quiet --disable-pip-version-check
# In `make check` torch cannot be imported, so that nothing in it comes to need torch.
WITHOUT_TORCH := PYTHONPATH=$(CURDIR)/tests/without_torch
# "06 09" → "06_ or 09_", which is in the names of their tests; "_" is in all names.
of-lessons = $(shell echo "$(strip $(1))" | sed 's/ /_ or /g; s/$$/_/')

help:  ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 24

run: .venv/run  ## run every notebook, or LESSONS="03 06", and build the site from their outputs; PLAIN=1: launches as readers have them
	@$(BIN)/python -m course.run $(if $(PLAIN),--plain) $(LESSONS)

site: .venv/build  ## build build/site/index.html from the kept outputs, without running anything
	$(BIN)/python -m course.site

test: style .venv/test .venv/kaggle/ready  ## all tests, the linter first; on your machine only those of what changed
	$(BIN)/python -m course.build --check
	$(BIN)/python -m pytest -n auto

check: style  ## in a minute, without torch: style, derived files, and the quick tests
	$(WITHOUT_TORCH) $(BIN)/python -m course.build --check
	$(WITHOUT_TORCH) $(BIN)/python -m pytest -q -n logical --maxprocesses 8 --dist worksteal \
		-m "quick and not torch and not thorough" $$(grep -rl --include="test_*.py" mark.quick tests)

style: .venv/build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m course.build.style

test-all: test mutants launch-faults test-thorough test-kaggle  ## everything: also every mutant and fault, full parameters

test-thorough: .venv/test .venv/kaggle/ready  ## what takes minutes; notebooks with their unsolved sections, and with full parameters
	$(BIN)/python -m pytest -n auto -m thorough $(patsubst %,--ignore tests/%.py,$(ALONE))
	$(BIN)/python -m course.run.notebooks "" solutions/

test-kaggle: .venv/test .venv-kaggle/ready  ## every notebook with Kaggle's packages, in folders like Kaggle's
	$(BIN)/python -m pytest -n auto -m "" tests/tools/kaggle/test_kaggle.py

mutants: .venv/test  ## change what programs compute, line by line; a test or launch must notice each
	$(BIN)/python tests/campaigns/mutants.py --green $(LESSONS)

launch-faults: .venv/test  ## let every launch fail in five ways, or those of LESSONS; each notebook must notice
	$(BIN)/python -m pytest -n auto -m thorough -k "$(call of-lessons,$(LESSONS))" tests/campaigns/test_launch_faults.py

aborts: .venv/test  ## 500 launches on gloo: does a rank die after its work? And 40 without the cure
	$(BIN)/python tests/campaigns/aborts.py

forks: .venv/test  ## do forked launches of a lesson compute what plain ones compute? All, or LESSONS="06"
	$(BIN)/python tests/campaigns/forked.py $(LESSONS)

faults: .venv/test  ## kill trainings, notebooks and the tools 200 times, fill their disks, spoil their files
	$(BIN)/python tests/campaigns/faults.py

cluster: .venv/test  ## lessons 13 and 14 on real parts: slow links, Slurm, TorchX, Prometheus, manifests
	$(BIN)/python tests/campaigns/cluster/probe.py
	@$(MAKE) --no-print-directory .venv-cluster/ready
	$(BIN)/python -m pytest -m cluster tests/campaigns/cluster

bench: .venv/test  ## measure the ratios that the course speaks of, or some: PARTS="small-CNN MLP"; does it run? PARTS=--quick
	$(BIN)/python -m course.measure $(PARTS)

speedrun: .venv/test  ## from the tutorials' training to the fastest, change by change: PARTS="--data FOLDER"
	$(BIN)/python -m course.measure.speedrun $(PARTS)

programs: .venv/build  ## the programs of one lesson, solved, into build/: LESSON=06
	$(BIN)/python -m course.build --programs $(LESSON)

build: .venv/build  ## make the notebooks from notebooks/src and scripts/lessons
	$(BIN)/python -m course.build

workshop: .venv/build  ## the class notebook and its solved twin in one language, into build/: LANGUAGE=zh
	$(BIN)/python -m course.build --workshop "$(LANGUAGE)"

exam: .venv/build  ## an exam of 75 minutes and its key, drawn anew for each class, into build/exam: SEED=1234
	@$(BIN)/python -m course.build --exam "$(SEED)"

key: .venv/build  ## the answers to the homework of both semesters, for teachers: build/key.html
	@$(BIN)/python -m course.build --key

outputs: build .venv/run  ## run lessons and solutions one by one (they measure speed), and keep what they printed and drew
	$(BIN)/python -m course.run.notebooks --outputs --jobs 1 $(or $(LESSONS),"" solutions/)
	$(BIN)/python -m course.build  # the lessons' minutes count what their launches took

address: .venv/build  ## say where the course is, for badges, slides and handout: REPO=name/course OWNER=kaggle-name
	@$(BIN)/python -m course.kaggle.address --repository "$(REPO)" --owner "$(OWNER)"
	$(BIN)/python -m course.build

kaggle: build  ## run notebooks on Kaggle, and bring back what became of them: OWNER=your-kaggle-name LESSONS="03 06"; LANGUAGE=zh
	@$(BIN)/python -m course.kaggle --owner "$(OWNER)" --language "$(LANGUAGE)" $(ALL) $(PARTS) $(LESSONS)

evidence: $(if $(FILE),.venv/build,.venv/run)  ## what lessons show on this machine's GPUs, or in FILE=06_run.json, goes into the pages
	@$(BIN)/python -m course.evidence $(if $(FILE),--file "$(FILE)") $(PARTS) $(LESSONS); \
		ended=$$?; $(BIN)/python -m course.build && exit $$ended

grade: .venv/run  ## run a class's notebooks again, each in a sandbox, and tell who solved what: DIR=submissions; exams: EXAM=1
	$(BIN)/python -m course.grade "$(DIR)" $(if $(EXAM),--exam "$(SEED)") $(OPTIONS)

lab: .venv/run  ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "make: $(PYTHON) is not Python 3.11, 3.12 or 3.13: name one, as in \`make run PYTHON=python3.12\`"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "make: $(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)"; exit 1; }
	@touch $@

.venv/course: | .venv/python
	@$(BIN)/python $(FIND_COURSE)
	@touch $@

.venv/build: scripts/course/requirements.txt $(CONSTRAINTS) | .venv/python .venv/course
	@echo "Installing what words, the site and quick tests need into .venv (300 MB: a minute)"
	@$(BIN)/python $(PIP) --no-compile -r $< -c $(CONSTRAINTS)  # 80 MB less
	@touch $@

.venv/run: requirements.txt .venv/build | .venv/frameworks/ready
	@echo "Installing what the notebooks need into .venv (torch alone is 5 GB: about two minutes)"
	@$(BIN)/python $(PIP) -r requirements.txt -c $(CONSTRAINTS)
	@touch $@

.venv/test: tests/requirements.txt .venv/run
	@echo "Installing what all tests need"
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
	@.venv-kaggle/bin/python $(FIND_COURSE)
	@touch $@

.venv-cluster/ready: tests/cluster-requirements.txt | .venv/python
	@echo "Installing TorchX and the schemas of manifests into .venv-cluster"
	@$(BIN)/python -m venv --clear .venv-cluster
	@.venv-cluster/bin/python $(PIP) -r tests/cluster-requirements.txt
	@touch $@

.PHONY: help run site test check style test-all test-thorough test-kaggle mutants launch-faults aborts forks faults cluster bench speedrun programs build workshop exam key outputs address kaggle evidence grade lab
