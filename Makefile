# Everything a person does with this repository. `make` alone lists it.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A few of some seeds run again under another hash seed: a trace that differs can not be repeated.
SIM_SEEDS := 1..150
SIM_AGAIN := 1..25
SIM := $(BIN)/python -m simulator --jobs 2
SIM_ALL = rm -rf build/sim && mkdir -p build/sim && \
	PYTHONHASHSEED=1 $(SIM) --seeds $(SIM_SEEDS) --campaign build/sim/first.json && \
	PYTHONHASHSEED=2 $(SIM) --seeds $(SIM_AGAIN) --covering --campaign build/sim/again.json --like build/sim/first.json
CODE := src simulator tests tools demo harness benchmarks reliability
# Tests run in another order each time, and draw other values, unless ORDER=n says which.
PYTEST := $(BIN)/python -m pytest -q --durations 10 $(if $(ORDER),--randomly-seed=$(ORDER) --hypothesis-seed=$(ORDER))

# Without stored byte code each process that starts compiles all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-unit test-process sim mutants fuzz prove check check-format check-lint check-types
.PHONY: mixed check-rooms check-tidy format docs compat suites bench bench-peers bench-plots bench-guard chaos lock clean dist dist-check fresh

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(STAMP) ## virtual environment with pinned packages and penstock; installs missing system packages if permitted

$(STAMP): requirements/build.lock requirements/all.lock pyproject.toml setup.py tools/setup.sh $(wildcard src/penstock/*/*.p[yx][xd] src/penstock/*/*/*.p[yx][xd])
	@tools/setup.sh $(VENV)
	@touch $@

# What else is needed is installed beside the packages, which take longest.
demo test compat bench bench-peers bench-guard: export BESIDE := tools/java.sh

java: ## Java 17 or later, for Spark
	@tools/java.sh

demo: setup java ## the main job on real input; INPUT=path takes another file or directory
	$(BIN)/python -m demo $(if $(INPUT),"$(INPUT)")

test: setup java test-unit test-process ## all tests except those with other Kafka clients

test-unit: $(STAMP) ## tests without real processes and Spark; ORDER=n repeats the order of a run
	$(PYTEST) -n 2 --dist worksteal -m "not process and not spark and not compat"

test-process: $(STAMP) ## tests with real processes, and with Spark
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m "(process or spark) and not compat" \
		$$(grep -rlE --include='test_*.py' 'mark\.(process|spark)\b' tests)

check: check-format check-lint check-types check-rooms check-tidy ## format, lint, types, room order, house rules

check-format: $(STAMP)
	$(BIN)/ruff format --check $(CODE)

check-lint: $(STAMP)
	$(BIN)/ruff check $(CODE)

check-types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy tools
	$(BIN)/mypy tests harness reliability benchmarks demo

check-rooms: $(STAMP)
	$(BIN)/lint-imports

check-tidy: $(STAMP)
	$(BIN)/python tools/tidy.py
	$(BIN)/python tools/circles.py
	$(BIN)/python tools/classes.py
	$(BIN)/python tools/by_text.py
	$(BIN)/python tools/shares.py

format: setup ## format the code and sort imports
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix --select I $(CODE)

docs: setup ## generate the reference pages
	$(BIN)/python tools/reference.py

dist: $(STAMP) ## wheel and source package in dist/
	rm -rf dist
	$(BIN)/python setup.py --quiet sdist --dist-dir dist
	$(BIN)/python tools/progress.py dist $(BIN)/python -m pip --disable-pip-version-check wheel --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz

dist-check: dist ## install and use both in clean environments, with and without a compiler
	$(BIN)/python -m tools.smoke dist

fresh: ## demo and unit tests on an empty Debian, as root; SUITE=trixie for another
	tools/fresh_machine.sh $(or $(SUITE),bookworm)

compat: setup java ## tests with other Kafka clients; skipped with a reason if Maven, Java, npm, Go or Cargo is missing
	$(PYTEST) -m compat --timeout 300

suites: setup ## the clients' own tests, fetched and run against real nodes; CLIENT=franz-go for one
	nice -n 5 $(BIN)/python -m reliability.suites $(or $(CLIENT),franz-go kafka-go kafka-python librdkafka sarama)

bench: setup java ## benchmarks; results as JSON
	$(BIN)/python -m benchmarks

bench-peers: setup java ## benchmarks beside Apache Kafka and RocketMQ, takes hours; ROWS=a,b* for some
	$(BIN)/python -m benchmarks.peers $(if $(ROWS),--rows '$(ROWS)')

bench-plots: $(STAMP) ## plots of the recorded benchmark rows
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/plots.lock
	$(BIN)/python -m benchmarks.peer_plots

bench-guard: setup java ## short benchmark run, compared with the last recorded ratios
	$(BIN)/python -m benchmarks.guard

chaos: setup ## real nodes in network namespaces: kills, partitions, failed disks, power loss; about 6 minutes
	$(BIN)/python -m reliability.chaos $(if $(SEED),--seed $(SEED))

mixed: setup ## rolling upgrade and downgrade between an earlier release and this one; OLDER=commit
	rm -rf build/older && mkdir -p build/older
	git archive $(OLDER) src | tar -x -C build/older
	PENSTOCK_OLDER=$(CURDIR)/build/older/src $(PYTEST) tests/integration/test_mixed_releases.py

sim: $(STAMP) ## simulated clusters under faults, about 15 minutes; SEED=n runs and explains one
	$(if $(SEED),$(BIN)/python -m simulator --seed $(SEED),$(SIM_ALL))

mutants: $(STAMP) ## plant bugs in a copy of the source, and run the tests that should find them; SEEDS=1..10: the simulator
	$(BIN)/python -m tools.mutants $(if $(SEEDS),--seeds $(SEEDS))

fuzz: $(STAMP) ## coverage-guided fuzzing of every parser, a minute each; PARSER=raft for one
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/fuzz.lock
	$(BIN)/python -m tests.badinput.fuzz --seconds 60 $(if $(PARSER),--parser $(PARSER))

prove: sim chaos ## sim and chaos, one after the other

lock: setup ## pin the newest versions that pyproject.toml allows
	@tools/lock.sh $(VENV)

clean: ## remove build results; keep data directories
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
	find src \( -name "*.so" -o -name "_*.c" \) -delete
