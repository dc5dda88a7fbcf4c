# make demo   the board on a recorded run that grows          make test   the checks before a commit
# Both set up what they need on a bare machine: Python 3.11 or newer with pip, and apt for a browser.

PYTHON ?= python3
BIN := .venv/bin
JS := .venv/js/node_modules/.bin
# Keeps the CPU time of a part of `make test`, and of its tests.
TIMED = $(BIN)/python -m tests.timings run $@
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input
# uv installs the same in less time.
ifneq ($(shell command -v uv),)
PIP := uv pip install -q --python $(BIN)/python
endif
# Of what comes with torch, or is tested only once, little is imported; the rest need not be compiled.
OTHER_PIP := python -m pip install -qq --disable-pip-version-check --no-input --no-compile
# `make PINS= ...` installs the newest version of everything, as a workflow does each week.
PINS ?= -c tests/constraints.txt
TRAIN_PIP := .venv-train/bin/$(OTHER_PIP)
# Without `remote`: no unit test needs it, and pip tries many versions until they fit its oldest one.
TESTED := parquet,tokenizers,tensorboard,dask,sql,mcp,tui
BESIDE := -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
APT := $(if $(filter 0,$(shell id -u)),,sudo )apt-get

# For versions other than those of .venv: the tests of every folder of the package that imports a dependency, of the
# parsers and of the access to each route (tests/unit/test_other_versions.py checks the list); a browser that opens
# pages (also on threads), follows a run, reads hostile texts and keeps its selection.
# Playwright leaves an event loop running, in which other tests cannot start theirs: two runs of pytest.
WITHOUT_DEPENDENCIES := tests/unit/recording/
OTHER := -n 2 --dist loadfile --hypothesis-profile quick -m "not upstream_fault" \
    $(filter-out $(WITHOUT_DEPENDENCIES),$(sort $(dir $(wildcard tests/unit/*/.)))) \
    tests/unit/test_views.py tests/property/test_parsers.py tests/property/test_flat_lines.py \
    tests/integration/security/test_routes.py
SMOKE := tests/ui/test_threads.py \
    tests/ui/test_live.py::test_a_line_is_a_point_and_a_whole_step_is_followed \
    tests/ui/test_hostile.py::test_nothing_that_a_log_says_is_run \
    tests/ui/test_url.py::test_what_is_chosen_survives_a_reload
# Of these, what `make test` runs: a page that follows a run and is loaded again; from Bokeh 3.10 on also on a thread.
THREADS_newest := tests/ui/test_threads.py
QUICK = $(THREADS_$@) $(filter tests/ui/test_live.py% tests/ui/test_url.py%,$(SMOKE))
# What `make oldest` and `make newest` test; or why they do not.
PARTS := OTHER SMOKE
RUN_PARTS = if [ -e .venv-$@/bin/python ]; \
    then $(TIMED) sh -exc '$(foreach part,$(PARTS),.venv-$@/bin/python -m pytest $($(part));)'; \
    else echo "make $@: left out, $$($(BIN)/python -m tests.pythons why_no_$@)"; fi

# Tests start hundreds of processes; without compiled modules each spends a third of its time on compiling them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick lint lint-js format format-js unit integration ui slow versions oldest newest upstream-dev test-train test-engines upstream watch \
    bench docs messages dist changelog browser clean

demo: .venv/run.stamp
	$(BIN)/rlpanel demo

# The parts run one after another: they keep two cores busy, and in parallel took no less time. Tests that are marked
# as slow, and the unit tests on other versions, run in `.ci/full` and on GitHub. The times are printed on failure too.
test: .venv/dev.stamp browser
	@$(BIN)/python -m tests.timings start
	@$(MAKE) .venv-oldest/stamp .venv-newest/stamp > .venv/other.log 2>&1 & installing=$$!; \
	{ $(MAKE) lint unit integration ui && { wait $$installing || { cat .venv/other.log; false; }; } && \
	$(MAKE) versions PARTS=QUICK; }; code=$$?; $(BIN)/python -m tests.timings print; exit $$code

# What differs from main: ruff on these files, mypy by its cache, the unit tests of the changed modules.
quick: .venv/dev.stamp
	$(BIN)/python -m tests.quick

# The scripts too, once `make lint-js` has installed its tools: `make test` needs nothing from npm.
lint: .venv/dev.stamp $(if $(wildcard .venv/js.stamp),lint-js)
	$(TIMED) sh -exc '$(BIN)/ruff check .; $(BIN)/ruff format --check .; $(BIN)/mypy'

# The scripts of the package: format, lint and types. The tools come from npm; a machine without it leaves this out, except GitHub's.
lint-js:
	@if ! command -v npm > /dev/null; then echo "make lint-js: left out, there is no npm"; \
	elif $(MAKE) -s .venv/js.stamp; then set -e; \
	    $(JS)/biome ci --colors=off --config-path=tests/js rlpanel; $(JS)/tsc -p tests/js; \
	else echo "make lint-js: left out, npm could not install the tools"; [ -z "$$GITHUB_ACTIONS" ]; fi

format-js: .venv/js.stamp
	$(JS)/biome check --write --config-path=tests/js rlpanel

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: .venv/dev.stamp
	$(TIMED) $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m "not slow" \
	    --hypothesis-profile quick tests/property tests/unit

# Real server processes under attack, real browsers, child processes.
integration: .venv/dev.stamp .venv/tornado.stamp browser
	$(TIMED) $(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" tests/integration

ui: .venv/dev.stamp browser
	$(TIMED) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" tests/ui

# All tests that make examples, with twenty times as many, and the tests that are marked as slow; together they take about as long as
# `make test`.
slow: .venv/dev.stamp .venv/tornado.stamp browser
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m hypothesis --hypothesis-profile many \
	    tests/property tests/unit
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "slow and not hypothesis" \
	    tests/property tests/unit tests/integration tests/soak
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow tests/ui

bench: .venv/dev.stamp browser
	for name in ingest store query opening latency viewers findings public; do \
	    $(BIN)/python -m tests.bench.$$name --record || exit 1; done

# Real training on the CPU, in an environment of its own, recorded and read back.
test-train: .venv/dev.stamp .venv-train/stamp
	$(BIN)/python -m pytest tests/train

# An exported dataset in Spark and polars, in an environment of its own; Spark needs Java 17 or newer.
test-engines: .venv/dev.stamp
	test -e .venv-engines/bin/python || $(PYTHON) -m venv .venv-engines
	.venv-engines/bin/$(OTHER_PIP) pyspark polars "pytest>=9.0" hypothesis -e ".[parquet]"
	.venv-engines/bin/python -m pytest tests/engines

# The writers of other frameworks, executed from their own sources, and read back.
upstream: .venv/dev.stamp .venv-train/stamp .venv-upstream/stamp
	$(BIN)/python -m pytest tests/upstream

# The newest release of each trainer, executed and compared with the last accepted answer; tests/upstream/watch.py.
# ONLY="verl trl" looks at these, AT=verl==0.9.0 at this release, ACCEPT=1 keeps what is read now as the answer.
watch: .venv/dev.stamp .venv-train/stamp
	$(BIN)/python -m tests.upstream.watch $(if $(ONLY),--only $(ONLY)) $(if $(AT),--at $(AT)) $(if $(ACCEPT),--accept)

# Both other sets of versions at the same time.
versions:
	$(MAKE) $(BESIDE) oldest newest

# The lower bound of every dependency, on the oldest Python that is found.
oldest: .venv-oldest/stamp browser
	@$(RUN_PARTS)

# The newest version of every dependency in PINS, on the newest Python that is found. Panel 1.10 needs Python 3.12.
newest: .venv-newest/stamp browser
	@$(RUN_PARTS)
	@[ ! -e .venv-newest/bin/python ] $(if $(filter OTHER,$(PARTS)),,|| true )|| .venv-newest/bin/python -m tests.fixes_report

# Development versions, as a workflow does each night: the smoke tests, and which workarounds can go.
upstream-dev: .venv-upstream-dev/stamp browser
	@[ -e .venv-upstream-dev/bin/python ] || { echo "make $@: $$($(BIN)/python -m tests.pythons why_no_newest)"; exit 1; }
	.venv-upstream-dev/bin/python -m pytest $(SMOKE)
	.venv-upstream-dev/bin/python -m tests.fixes_report

# The files of a release, checked as PyPI checks them.
dist: .venv/dev.stamp
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

# Pages that are generated from what the code declares, and the site; a broken link is an error.
docs: .venv/dev.stamp
	$(BIN)/python -m docs.generate
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site . docs/_site

# The catalogues of the board's labels: new labels are added, and all are compiled.
messages: .venv/dev.stamp
	$(BIN)/python -m docs.messages

# The fragments of docs/changes become a version's section: make changelog VERSION=0.2.0
changelog: .venv/dev.stamp
	$(BIN)/python -m docs.changelog $(VERSION)

clean:
	rm -rf .venv .venv-oldest .venv-newest .venv-upstream-dev .venv-train .venv-upstream

.venv/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "rlpanel needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@$(PYTHON) -m venv .venv || \
	    { echo "python3 cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@

.venv/run.stamp: pyproject.toml .venv/python.stamp
	@echo "installing rlpanel into .venv ..."
	@$(PIP) -e .
	@touch $@

.venv/dev.stamp: pyproject.toml tests/constraints.txt .venv/python.stamp
	@echo "installing rlpanel and its tools into .venv ..."
	@$(BIN)/python tests/groups.py dev > .venv/groups.txt
	@$(PIP) $(PINS) -r .venv/groups.txt -e ".[parquet,tokenizers,tensorboard,remote,dask,notebook,timeline,sql,mcp,tui]"
	@touch $@ .venv/run.stamp

# Beside the package, whose folders hold nothing from npm.
.venv/js.stamp: tests/js/package-lock.json .venv/python.stamp
	@mkdir -p .venv/js
	@cp tests/js/package.json tests/js/package-lock.json .venv/js
	@npm ci --prefix .venv/js --silent --no-audit --no-fund
	@touch $@

# The oldest Tornado that is supported, beside the newest: the check of Host and Origin is tested with both.
.venv/tornado.stamp: .venv/dev.stamp
	@$(BIN)/python -m tests.lowest | grep '^tornado==' > .venv/oldest-tornado.txt
	@$(PIP) --no-deps --upgrade --target .venv/oldest-tornado -r .venv/oldest-tornado.txt
	@touch $@

# Made anew only if other packages belong into them; see tests/environments.py.
.venv-oldest/stamp: pyproject.toml tests/constraints.txt .venv/dev.stamp
	@$(BIN)/python -m tests.environments oldest $(TESTED)
	@[ ! -e .venv-oldest/bin/python ] || touch $@

.venv-newest/stamp: pyproject.toml tests/constraints.txt .venv/dev.stamp
	@$(BIN)/python -m tests.environments newest $(TESTED) $(PINS)
	@[ ! -e .venv-newest/bin/python ] || touch $@

# The newest of Panel and HoloViews, and of Bokeh what this Panel accepts: Panel 1.10 cannot be imported with Bokeh 4. All
# others as constrained: a new version of another project is the business of `make newest`.
.venv-upstream-dev/stamp: pyproject.toml .venv/dev.stamp
	@rm -rf .venv-upstream-dev
	@mkdir .venv-upstream-dev
	@python=$$($(BIN)/python -m tests.pythons newest_or_running); [ -z "$$python" ] || { \
	    $$python -m venv .venv-upstream-dev && $(BIN)/python tests/groups.py test > .venv-upstream-dev/groups.txt && \
	    .venv-upstream-dev/bin/$(OTHER_PIP) $(PINS) -r .venv-upstream-dev/groups.txt -e ".[$(TESTED)]" && \
	    .venv-upstream-dev/bin/$(OTHER_PIP) --pre --upgrade --upgrade-strategy only-if-needed panel bokeh holoviews && touch $@; }

# torch first: what follows would otherwise bring another build of it. trl 1.12 is the last with a PPO trainer;
# it works with the same packages, so it lies beside them instead of in a third environment.
.venv-train/stamp: tests/train/requirements.txt .venv/python.stamp
	@$(PYTHON) -m venv .venv-train
	@echo "installing torch and trl into .venv-train ..."
	@$(TRAIN_PIP) torch==2.13.0
	@$(TRAIN_PIP) -r tests/train/requirements.txt
	@$(TRAIN_PIP) --no-deps --upgrade --target .venv-train/trl-1.12 trl==1.12.0
	@touch $@

# Sources alone: the frameworks' dependencies, many for GPUs, are not needed.
# Some declare a newer Python than the one that runs, which their writers do not need.
UPSTREAM_PINS := tests/upstream/requirements.txt tests/upstream/imported.txt tests/train/requirements.txt
.venv-upstream/stamp: $(UPSTREAM_PINS) .venv-train/stamp .venv/dev.stamp
	@echo "downloading the frameworks' sources into .venv-upstream ..."
	@rm -rf .venv-upstream
	@$(BIN)/python -m pip download -qq --disable-pip-version-check --no-deps --only-binary :all: \
	    --ignore-requires-python -d .venv-upstream/downloads -r tests/upstream/requirements.txt \
	    $$(grep '^trl==' tests/train/requirements.txt)
	@$(BIN)/python -m tests.upstream.unpack .venv-upstream/downloads .venv-upstream/sources
	@$(TRAIN_PIP) --target .venv-upstream/installed -r tests/upstream/imported.txt
	@touch $@

# A Chromium found under any of these names is used; else Debian's is installed, with fonts for CJK and emoji.
# Debian's variant without a window opens pages in less time; other systems do not have it.
browser:
	@for name in "$$CHROMIUM" chromium chromium-browser google-chrome; do \
	    command -v "$$name" > /dev/null 2>&1 && exit 0; \
	done; \
	echo "installing Chromium ..."; \
	$(APT) update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq \
	    --no-install-recommends chromium fonts-noto-cjk fonts-noto-color-emoji > /dev/null || \
	    { echo "no browser: install Chromium or Chrome, or name one in CHROMIUM"; exit 1; }; \
	$(APT) install -y -qq --no-install-recommends chromium-headless-shell > /dev/null 2>&1 || true
