# The README's two commands are `make run` and `make test`. They need only Python >= 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := PIP_CONSTRAINT=constraints/constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: install dev run test test-long test-openai2 lint format clean hapi-diff clients integrations images release docs

install: .venv/.installed
dev: .venv/.test-installed
run: install
	$(BIN)/medagent run --version v2 --round r2 --agent reference

test: .venv/.test-installed
	$(BIN)/python -m pytest

# The tests marked `long`, or a part of them: make test-long [PART=2/4]
test-long: .venv/.test-installed
	$(BIN)/python -m pytest -m long -n 3 $(if $(PART),--part $(PART))

# Draws docs/images from commands: make images [ONLY="terminal.svg report-run.png"]. Needs Chromium.
images: .venv/.test-installed
	$(BIN)/python -m tools.pictures $(ONLY)

# Tests the code for models, and runs, with the oldest supported openai in a separate environment.
test-openai2: .venv-openai2/.test-installed
	.venv-openai2/bin/python -m pytest tests/medagent/models tests/medagent/benchmarks/medagentbench/test_run.py

# Starts a real HAPI FHIR 7.6.0 three times (Java 17 and Maven): make hapi-diff [HAPI=…/hapi.sh] [COUNT=1000] [SEED=1]
HAPI ?= ../shared/hapi/live/hapi.sh
COUNT ?= 1000
SEED ?= 1
hapi-diff: .venv/.test-installed
	$(BIN)/python -m tools.hapi_diff $(HAPI) --count $(COUNT) --seed $(SEED)

# Calls this server, and a HAPI if BASE names one, with widely used clients (needs Java, Maven and Node):
# make clients [BASE=http://localhost:18080/fhir]
JAVA_CLIENT := tests/clients/java/target
NODE_CLIENTS := tests/clients/javascript/node_modules
clients: .venv/.test-installed .venv-clients/.installed $(JAVA_CLIENT)/.installed $(NODE_CLIENTS)/.installed
	$(BIN)/python -m tests.clients $(if $(BASE),--base $(BASE))

# Checks each integration with the other tool itself, in a separate environment: make integrations
# [ONLY="inspect mcp"] [STRICT=1] [FRESH=1] [NEWEST=1]. STRICT fails if a check could not run; NEWEST also tries newer
# releases than the bounds allow.
integrations: .venv/.test-installed
	$(BIN)/python -m tests.integrations $(ONLY)

# Builds and checks a release, tries the wheel in empty environments, and lists the manual steps.
release: .venv/.test-installed .venv-release/.installed
	$(BIN)/python -m tools.release

# Builds the docs site in site/. Fails on a broken link or a public name without a docstring (with --quiet, links pass).
docs: .venv-docs/.installed
	.venv-docs/bin/python -m tools.doc_menu
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build

lint: .venv/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/words.py
	$(BIN)/codespell $$(git ls-files '*.py' '*.md')

format: .venv/.test-installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/.installed: pyproject.toml constraints/constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) --editable '.[code]'
	touch $@

.venv/.test-installed: .venv/.installed
	$(PIP) --editable '.[test]'
	touch $@

.venv-openai2/.test-installed: pyproject.toml constraints/constraints.txt constraints/openai2.txt
	$(PYTHON) -m venv .venv-openai2
	grep -v '^openai==' constraints/constraints.txt | cat - constraints/openai2.txt > .venv-openai2/constraints.txt
	PIP_CONSTRAINT=.venv-openai2/constraints.txt .venv-openai2/bin/python -m pip install --quiet \
		--disable-pip-version-check --editable '.[test]'
	touch $@

.venv-clients/.installed: constraints/clients.txt
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check -r constraints/clients.txt
	touch $@

.venv-docs/.installed: pyproject.toml constraints/constraints.txt constraints/docs.txt
	$(PYTHON) -m venv .venv-docs
	cat constraints/constraints.txt constraints/docs.txt > .venv-docs/constraints.txt
	PIP_CONSTRAINT=.venv-docs/constraints.txt .venv-docs/bin/python -m pip install --quiet \
		--disable-pip-version-check --editable . mkdocs-material mkdocstrings-python
	touch $@

.venv-release/.installed: constraints/release.txt
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --disable-pip-version-check -r constraints/release.txt
	touch $@

$(JAVA_CLIENT)/.installed: tests/clients/java/pom.xml $(wildcard tests/clients/java/*.java)
	mvn -q -B -f tests/clients/java/pom.xml dependency:copy-dependencies -DincludeScope=runtime
	javac -d $(JAVA_CLIENT)/classes -cp '$(JAVA_CLIENT)/dependency/*' tests/clients/java/*.java
	touch $@

$(NODE_CLIENTS)/.installed: tests/clients/javascript/package.json
	npm install --prefix tests/clients/javascript --no-package-lock --no-audit --no-fund --silent
	touch $@

clean:
	rm -rf $(JAVA_CLIENT) $(NODE_CLIENTS) .venv-clients
	rm -rf .venv .venv-openai2 .venv-integrations .venv-release .venv-docs site .mypy_cache .ruff_cache .pytest_cache dist
