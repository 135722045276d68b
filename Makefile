# The two commands of a newcomer: `make demo` and `make test`; each sets up what it needs, and no more.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed-run
ALL := $(VENV)/.installed
# Many containers set it, and each process that a test starts would compile all of its modules again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup test test-statistics nightly demo demo-numpy docs lint lock clean

# pip installs uv, which installs the rest in a seventh of the time; pip does where uv can't, such as behind pip's own index.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
define INSTALL
sed -n '/^uv==/,/[^\\]$$/p' $< > $(VENV)/uv.lock
$(PIP) -r $(VENV)/uv.lock && $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r $< || $(PIP) -r $<
endef

# With PYTHONDONTWRITEBYTECODE set, whatever isn't compiled here is compiled at each start.
PACKAGES := opduel causes commands comparator driver fleet frameworks harness records reporters server support

# Everything: what running, the server, tests and linters need.
setup: $(ALL)

$(RUN): requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(INSTALL)
	-$(BIN)/python -m compileall -qq -j 0 $(PACKAGES)
	touch $@

$(ALL): requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(INSTALL)
	-$(BIN)/python -m compileall -qq -j 0 $(PACKAGES)
	touch $(RUN) $@

# What measures has the machine to itself; everything else runs on all processors, at most four, each file on one.
test: setup
	$(BIN)/python -m pytest -m "not measures and not nightly" -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m "measures and not nightly" $$(grep -rl --include='test_*.py' mark.measures tests)

# Error rates: simulations that find a rate of twice the stated one with 95 % power.
test-statistics: setup
	$(BIN)/python -m pytest -m statistics -n logical --maxprocesses 4 tests/comparator

# What takes minutes: everything, in every form.
nightly: setup
	$(BIN)/python -m pytest -m nightly
	$(BIN)/python benchmarks/hostile.py

# Ends in 0 whatever the verdicts: 1 means "regression found", which is a result, not a failure; and so is 3 where only
# the time was too short to settle a case that looks changed. An aborted run, or one without a verdict, is a failure.
SHOWN := build/demo
A_RESULT = test $$code -eq 1 || { test $$code -eq 3 && grep -q '"aborted": false' $(SHOWN)/report.json && \
	    grep -qE '"verdict": "(improved|unchanged|not_worse|not_better)"' $(SHOWN)/report.json; }

# On a busy machine it says so, and shows its verdicts all the same.
demo: $(RUN)
	rm -rf $(SHOWN)
	$(BIN)/python harness.py -b specs/conv.json --control mxnet==1.8.0.post0 --treatment mxnet==1.9.1 \
	    --time_budget 120 --busy_host report --screen_reporter --local_reporter reports \
	    --simple_local_reporter $(SHOWN) || { code=$$?; $(A_RESULT); }

# The same for functions of NumPy, on two releases: less than three minutes with everything that it installs.
demo-numpy: $(RUN)
	rm -rf $(SHOWN)
	$(BIN)/python harness.py -b specs/numpy.json --control numpy==1.26.4 --treatment numpy==2.2.6 \
	    --time_budget 40 --busy_host report --screen_reporter --local_reporter reports \
	    --simple_local_reporter $(SHOWN) || { code=$$?; $(A_RESULT); }

# The documentation's site, in build/site; a link that leads nowhere fails.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Hashes of every wheel, and no index address: the lock files name no registry. What running needs has one version in both.
COMPILE = $(BIN)/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-header

lock:
	$(COMPILE) --extra server --extra mcp --extra fleet --extra dev --output-file requirements-dev.lock pyproject.toml
	$(COMPILE) --constraint requirements-dev.lock --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
