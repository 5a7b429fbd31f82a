# The project's commands. `make` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CRIER_CACHE ?= $(HOME)/.cache/crier
CARGO_DENY_VERSION := 0.20.2
CARGO_DENY := $(CRIER_CACHE)/tools/bin/cargo-deny
CARGO_FUZZ_VERSION := 0.13.2
CARGO_FUZZ := $(CRIER_CACHE)/tools/bin/cargo-fuzz
CARGO_MUTANTS_VERSION := 27.1.0
CARGO_MUTANTS := $(CRIER_CACHE)/tools/bin/cargo-mutants

.PHONY: help prerequisites demo servers test bench check advisories sim sim-soak chaos fuzz mutants

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

prerequisites:
	@tests/servers/prerequisites.sh cargo cmake g++ pkg-config openssl-headers

demo: ## Show the main job on a real API server, in a minute
	@tests/servers/prerequisites.sh cargo gcc
	@tests/servers/build.sh etcd kube-apiserver >/dev/null
	cargo test --locked --no-default-features --features webhook --test demo --no-run
	@cargo test --quiet --locked --no-default-features --features webhook --test demo

servers: ## Build the real servers for the tests into a cache outside the checkout
	@tests/servers/build.sh

test: prerequisites servers ## Run all tests, on real servers too
	cargo test --workspace --locked

bench: prerequisites servers ## Measure what an event costs on a real API server, in a release build
	cargo bench --locked --bench hot_path
	cargo bench --locked --bench throughput

sim: ## Simulate SEED=n and print its trace; without it, the seeds of `make test`. MUTANT=Name plants a fault
	@CRIER_SIM_SEED=$(SEED) CRIER_SIM_MUTANT=$(MUTANT) cargo test --locked --quiet --test sim no_schedule -- --nocapture

sim-soak: ## Simulate further seeds until stopped, and print those that break a promise
	@cargo test --locked --quiet --test sim soak -- --ignored --nocapture

SECONDS ?= 900
chaos: prerequisites servers ## Break everything around crier and crier itself for SECONDS (900); CRIER_CHAOS_SEED=n repeats
	CRIER_CHAOS_SECONDS=$(SECONDS) cargo test --locked --test chaos

FUZZ_SECONDS ?= 60
fuzz: $(CARGO_FUZZ) ## Fuzz what reads bytes that others wrote, each target for FUZZ_SECONDS (60)
	@for target in lines metadata records versions; do \
		RUSTC_BOOTSTRAP=1 $(CARGO_FUZZ) run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1; \
	done

# Survivors are no error of the run: cargo-mutants answers them by 2, and what did not end in time by 3.
MUTATE = $(CARGO_MUTANTS) mutants --file 'src/engine/*.rs' --exclude src/engine/mutant.rs --jobs 2 --baseline skip \
	--no-shuffle --cargo-arg=--locked --cargo-arg=--no-default-features --output $(CRIER_CACHE)/mutants
mutants: $(CARGO_MUTANTS) ## Mutate the engine's code, against its scripts and then against the simulator (hours)
	rm -rf $(CRIER_CACHE)/mutants
	mkdir -p $(CRIER_CACHE)/mutants
	$(MUTATE) --timeout 60 --cargo-arg=--lib -- engine:: || test $$? -le 3
	CRIER_SIM_STOP=1 $(MUTATE) --iterate --timeout 300 --cargo-arg=--test=sim -- no_schedule || test $$? -le 3
	@echo "survivors: $(CRIER_CACHE)/mutants/mutants.out/missed.txt"

check: prerequisites $(CARGO_DENY) ## Format, lints, documentation, licences and sources of all dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --all-targets --locked --no-default-features --features webhook -- -D warnings
	cargo clippy --locked --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --document-private-items
	$(CARGO_DENY) --locked check bans licenses sources

advisories: $(CARGO_DENY) ## Check the dependencies against the advisory database (needs the network)
	$(CARGO_DENY) --locked check advisories

$(CARGO_DENY):
	CARGO_TARGET_DIR="$(CRIER_CACHE)/tools/target" cargo install cargo-deny --quiet --locked --version $(CARGO_DENY_VERSION) --root "$(CRIER_CACHE)/tools"

$(CARGO_MUTANTS):
	CARGO_TARGET_DIR="$(CRIER_CACHE)/tools/target" cargo install cargo-mutants --quiet --locked --version $(CARGO_MUTANTS_VERSION) --root "$(CRIER_CACHE)/tools"

$(CARGO_FUZZ):
	CARGO_TARGET_DIR="$(CRIER_CACHE)/tools/target" cargo install cargo-fuzz --quiet --locked --version $(CARGO_FUZZ_VERSION) --root "$(CRIER_CACHE)/tools"
