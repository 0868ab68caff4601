# What users and CI type. Everything else is `cargo` and `cargo xtask`.

.PHONY: build demo test check bench study setup

# Of all programs, those that users run. All of the workspace's features, as xtask builds them.
PROGRAMS = --workspace --bin vrdmad --bin vrdma --bin vrdma-study

build: setup ## vrdmad, vrdma, vrdma-study and the libraries, in target/release
	cargo build --release $(PROGRAMS)
	cargo xtask library --release

demo: setup ## two stock-Linux VMs talk RDMA; one table against TCP and rxe
	cargo build --release --quiet $(PROGRAMS)
	cargo xtask demo

test: setup check ## every test, guests included
	cargo test --workspace
	VRDMA_TEST_SHARDS=2 cargo test --workspace --test process
	RUSTFLAGS="--cfg loom" cargo test --package vrdma-provider --package vrdma-memory --lib --target-dir target/loom model::
	cargo xtask fuzz --seconds 45
	cargo xtask guests
	cargo xtask guests --doorbells trapped --only="-g 1 -c -e"
	cargo xtask guests --hosts 2 --short
	cargo xtask guests --hosts 2 --uplink tunnel --loss 5% --short
	cargo xtask guests --hosts 2 --b rxe --short
	cargo xtask lab survive --short --seconds 4
	cargo xtask lab survive --short --seconds 4 --upgrade
	cargo xtask lab migrate --times 2 --only srq --crash
	cargo xtask lab migrate --times 2 --only "20 MiB" --memory direct
	cargo xtask lab migrate --times 2 --only each --two-adapters --libvirt
	cargo xtask lab migrate --times 2 --only rc_ping --memory direct --post-copy
	cargo xtask lab migrate --times 2 --only rping --peers process --memory rdma
	cargo xtask lab migrate --times 2 --peers vm,process,rxe
	cargo xtask lab snapshot
	cargo xtask programs --short
	VRDMA_TEST_SHARDS=2 cargo xtask programs --short --with guest
	cargo xtask programs --short --with peer
	cargo xtask programs --short --with peer-guest --uplink raw
	cargo xtask programs --short --with peer-rxe --uplink raw
	cargo xtask programs --third-party --short
	cargo xtask pyverbs

check: ## formatting, lints and the house rules
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cargo xtask check

bench: setup ## the figures of the targets, as JSON
	cargo build --release --quiet $(PROGRAMS)
	cargo xtask bench

study: ## a short run of the published studies, beside theirs; target/study/report.html
	@scripts/setup study
	cargo build --release --quiet $(PROGRAMS)
	cargo xtask library --release
	cargo run --release --quiet --bin vrdma-study -- run --short --minutes 20 --out target/study
	cargo run --release --quiet --bin vrdma-study -- report --out target/study
	VRDMA_STUDY_RESULTS=$(CURDIR)/target/study/results.json cargo test --quiet --package vrdma-study --test screenshot -- --ignored

setup: ## packages of the host; asks for sudo only to install what is missing
	@scripts/setup
