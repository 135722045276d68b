# The two commands of a newcomer: `make demo` and `make test`; each sets up what it needs, and no more.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed-run
ALL := $(VENV)/.installed

.PHONY: setup test test-statistics nightly demo demo-numpy docs lint lock clean

# pip installs uv, which installs the rest in a seventh of the time; pip does where uv can't, such as behind pip's own index.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
define INSTALL
sed -n '/^uv==/,/[^\\]$$/p' $< > $(VENV)/uv.lock
$(PIP) -r $(VENV)/uv.lock && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $< || $(PIP) -r $<
endef

# Everything: what running, the server, tests and linters need.
setup: $(ALL)

$(RUN): requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(INSTALL)
	touch $@

$(ALL): requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(INSTALL)
	touch $(RUN) $@

# What measures has the machine to itself; everything else runs on all processors, at most four, each file on one.
test: setup
	$(BIN)/python -m pytest -m "not measures and not nightly" -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m "measures and not nightly"

# Error rates: simulations that find a rate of twice the stated one with 95 % power.
test-statistics: setup
	$(BIN)/python -m pytest -m statistics -n logical --maxprocesses 4 tests/comparator

# What takes minutes: everything, in every form.
nightly: setup
	$(BIN)/python -m pytest -m nightly
	$(BIN)/python benchmarks/hostile.py

# Ends in 0 whatever the verdicts: 1 means "regression found", 3 that a case that looks changed was not settled in the
# time: results, not failures. On a busy machine it says
# so, and shows its verdicts all the same.
demo: $(RUN)
	$(BIN)/python harness.py -b specs/conv.json --control mxnet==1.8.0.post0 --treatment mxnet==1.9.1 \
	    --time_budget 240 --busy_host report --screen_reporter --local_reporter reports || case $$? in 1|3) ;; *) exit 1 ;; esac

# The same for functions of NumPy, on two releases: less than three minutes with everything that it installs.
demo-numpy: $(RUN)
	$(BIN)/python harness.py -b specs/numpy.json --control numpy==1.26.4 --treatment numpy==2.2.6 \
	    --time_budget 40 --busy_host report --screen_reporter --local_reporter reports || case $$? in 1|3) ;; *) exit 1 ;; esac

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
	$(COMPILE) --extra server --extra dev --output-file requirements-dev.lock pyproject.toml
	$(COMPILE) --constraint requirements-dev.lock --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
