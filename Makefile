# Candela. `make` alone lists the targets; the comment behind `##` is what it prints.

GO        ?= go
FUZZTIME  ?= 10s
# Behind the order of the tests and what rapid draws; 0 draws anew.
SEED      ?= 1
BENCHARGS ?=
ORACLEARGS ?=
MUTATEARGS ?=
VMARGS    ?= stable
GUESTS    ?= all
OUT       ?= runs

# The version of the binary; the linker gets it by hand, as GOFLAGS may keep the toolchain from recording one.
STAMP = -ldflags "-X main.stamped=$$(tools/version)"

BIN  := bin/candela
LINT := .cache/bin/golangci-lint

# The harness needs no C compiler; only the race detector does.
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: lab-image lab-guests nights test-lab-guests history-figures test-ci test-kills p4 vm-image test-bare-root test-vm test-package test-reproduce test-reproduce-loads help setup build demo test test-live test-live-sample test-parity deb race detection silence fuzz bench oracle mutate bench-once generate generated lint ci clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the tests compare with (tshark, mergecap) from Debian's packages
	@tools/setup

build: $(BIN) ## build bin/candela

$(BIN): FORCE
	@$(GO) build $(STAMP) -o $@ ./cmd/candela

demo: $(BIN) ## lose named packets on a model NIC, see the verdict, and catch a broken one; needs Go alone
	@tools/demo $(BIN) $(OUT)

test: ## vet and run every test, with the outside tools installed where that is possible (SEED=0 draws anew)
	@tools/setup --optional
	$(GO) vet ./...
	@GO='$(GO)' SEED='$(SEED)' tools/gotest

test-live: ## on real packets, in network namespaces: findings, faults, L1 and L2; needs root, or says SKIP
	CANDELA_TEST_LIVE=1 $(GO) test -count=1 -v -timeout 20m -run '^Test(Live|ALive|ALab|NoFault|AComponent|AFullDisk|APort|AKilled|L1|L2)' ./cmd/candela | tools/live-summary
	CANDELA_TEST_LIVE=1 $(GO) test -count=1 -timeout 15m -run 'Live|RealFrames|Kernels|Link' ./testbeds/live ./testbeds/switches/sai
	CANDELA_TEST_LIVE=1 $(GO) test -count=1 -v -timeout 15m -run RealFrames ./orchestrator/switchtest | tools/live-summary
	$(GO) test -count=1 ./dumper/live ./generator/live ./injector/datapathtest ./injector/xdp ./injector/afpacket ./link/...

# Not in it: the figures L1 and L2, what other testbeds need (bmv2), and two thirds of the cases of long tables.
test-live-sample: ## what CI judges of test-live, in some three minutes; needs root, or says SKIP
	CANDELA_TEST_LIVE=sample $(GO) test -count=1 -v -timeout 10m -run '^Test(Live|ALive|ALab|NoFault|AComponent|AFullDisk|APort|AKilled)' ./cmd/candela | tools/live-summary
	CANDELA_TEST_LIVE=sample $(GO) test -count=1 -v -timeout 5m -run RealFrames ./orchestrator/switchtest | tools/live-summary

test-kills: ## signals to random processes of runs in network namespaces at random instants, KILLS (120) of them; needs root
	CANDELA_TEST_LIVE=1 CANDELA_KILLS=$(or $(KILLS),120) $(GO) test -count=1 -v -timeout 60m -run TestAKilledComponentIsNamed ./cmd/candela

test-parity: ## conformance suite, seeded bugs and examples on real packets against the virtual testbed (PARITY=REGEXP); needs root, or says SKIP
	CANDELA_TEST_LIVE=1 $(GO) test -count=1 -v -timeout 15m -run '$(or $(PARITY),^TestParity)' ./cmd/candela | tools/live-summary

p4: ## rebuild the P4 programs with the compilers for bmv2 and Tofino that are on the PATH, and compare (CANDELA_TNA_INCLUDE=DIR)
	@tools/p4 '$(GO)'

deb: ## build the Debian package of agent and switchd in dist/
	@GO='$(GO)' tools/deb

# Random tests draw a fifth: what the detector looks for shows with few draws, and each costs ten times as much.
race: ## run tests under the race detector, of packages that can have a race (needs a C compiler)
	@CGO_ENABLED=1 GO='$(GO)' SEED='$(SEED)' tools/gotest -race -short -timeout 20m

detection: $(BIN) ## bug × analyzer, sound NICs on every example, 10000 random scenarios on sound NICs
	@$(BIN) detect --scenarios 10000

# The networks of which go test draws a tenth or less: 40 for each switch model, each bug of hosts in as many, and 3000
# small networks of TCP hosts.
silence: ## compliant hosts behind every switch model in random networks: nobody may be blamed; and in how many each seeded bug is caught
	CANDELA_TEST_SILENCE=40 CANDELA_TEST_WIDE=3000 $(GO) test -count=1 -v -timeout 30m -run '^Test(Compliant|Sound|Scoreboards|JudgesAreSilentOnRandomBolt|TheCapturesAlone|SampledFlows|IncastsOf|TCPNetworksOf|SeededTCPBugs(Are|OfECN)|SeededBugsOfActive|ShortTimeouts)' ./orchestrator/switchtest

history-figures: ## the results store: 10^6 runs on both engines (size, questions, equal answers), 300 labs with a shifted metric, ingest, 100 kills
	CANDELA_TEST_HISTORY=1000000 CANDELA_TEST_HISTORY_ASKED=100 CANDELA_KILLS=100 $(GO) test -count=1 -v -timeout 120m -run 'ALarge|Killed' ./orchestrator/history
	CANDELA_TEST_NIGHTS=300 $(GO) test -count=1 -v -timeout 20m -run Shift ./orchestrator/history/statistics
	$(GO) test -run '^$$' -bench Ingest ./orchestrator/history

nights: ## thirty nights of candela nightly on the virtual testbed with planted faults (NIGHTS=30)
	CANDELA_TEST_NIGHTLY=$(or $(NIGHTS),30) $(GO) test -count=1 -timeout 30m -run NightsOfALabEndToEnd ./cmd/candela

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' tools/fuzz

bench: $(BIN) ## measure each figure and print it beside its target (BENCHARGS=-h for options)
	@tools/setup --optional
	@$(GO) run ./bench $(BENCHARGS)

oracle: ## judge 10^6 random small traces both by the analyzers and by the exhaustive oracle; print how they differ (ORACLEARGS="-count N -seed N")
	@$(GO) run ./bench/oracle compare -count 1000000 $(ORACLEARGS)

# Each package with the packages whose tests judge its mutants, too.
MUTATED := ./analyzers/retrans,./trace,./analyzers/gbn,./analyzers/observer+./analyzers/gbn+./analyzers/oracle/comparison,./injector/pipeline

mutate: ## how many of 300 small changes of each of retrans, trace, gbn and observer the tests notice; half an hour (MUTATEARGS="-packages P -count N -seed N")
	@$(GO) run ./bench/mutate -packages $(MUTATED) -reasons bench/mutate/testdata/mutants.txt $(MUTATEARGS)

captures: ## 20000 sessions of compliant endpoints through every kind of capture, and 2400 random scenarios on NIC models: nobody may be blamed (CAPTURESARGS="-count N -seed N")
	@$(GO) run ./bench/oracle check -reopen -count 20000 -limit 0 $(CAPTURESARGS)
	@$(GO) run ./bench/oracle check -source scenarios -count 2400 -limit 0 $(CAPTURESARGS)

bug-views: ## rewrite docs/reference/bug-views.md: which seeded bugs show through which captures
	@$(GO) run ./bench/oracle bugs -page docs/reference/bug-views.md

bench-once: ## run each benchmark once, so that none rots
	$(GO) test -vet=off -short -run '^$$' -bench . -benchtime 1x \
		$$(git grep -l '^func Benchmark' -- '*_test.go' | sed 's|^|./|; s|/[^/]*$$||' | sort -u)

generate: ## rebuild the XDP objects (clang) and the protobuf code (protoc)
	@tools/setup --generators
	@GO='$(GO)' tools/generated --write

generated: ## rebuild what is generated and committed, and compare; other versions of the compilers are skipped
	@tools/setup --generators
	@GO='$(GO)' tools/generated

vm-image: ## make the kernel and initramfs of guests from Debian's packages (VMARGS="stable backports", or --kernel, --modules)
	@tools/setup --vm
	@GO='$(GO)' tools/vm-image $(VMARGS)

test-bare-root: ## make vm-image in a root of a fresh Debian's smallest set of packages (needs root and debootstrap, or says SKIP)
	@tools/setup --bare-root
	@tools/vm-bare-root '$(GO)'

test-vm: ## soft-RoCE in virtual machines: boot, lose packets, judge, kill, interoperate (skips what is missing)
	CANDELA_TEST_VM=1 $(GO) test -count=1 -v -timeout 30m ./testbeds/vm ./injector/qemu
	CANDELA_TEST_VM=1 $(GO) test -count=1 -v -timeout 30m -run TestVM ./cmd/candela

lab-image: # what the machines of a lab of guests boot
	@tools/setup --vm
	@rm -f .cache/vm/lab/candela # what is left of an older one must not be tested
	@if GO='$(GO)' tools/vm-image stable; then GO='$(GO)' tools/deb && tools/lab-image; else echo "SKIP-image: no kernel for guests"; fi

lab-guests: lab-image ## boot a lab of virtual machines and keep it up: two hosts with soft-RoCE, a dumper, a switch (docs/guide/lab.md)
	$(GO) run ./testbeds/lab/guests/labguests

test-lab-guests: lab-image ## tests on that lab: the package's agent over mutual TLS, losses, perftest as application, dead machines (GUESTS=sample: two of them; skips what is missing)
	CANDELA_TEST_LAB_GUESTS=$(GUESTS) $(GO) test -count=1 -v -timeout 30m -run '^TestLabOfGuests' ./cmd/candela

test-package: ## install the Debian package in a guest with systemd, start, kill, upgrade, remove (skips what is missing; needs root)
	@tools/setup --vm
	@GO='$(GO)' tools/vm-image backports && tools/package-image || echo "SKIP-package: no guest to install it in"
	@GO='$(GO)' tools/deb
	CANDELA_TEST_PACKAGE=1 $(GO) test -count=1 -v -timeout 20m ./packaging

test-reproduce: ## measure every result of the papers, and compare headlines and misses with the documents (REPRODUCE=sample: a third)
	SEED='$(SEED)' CANDELA_TEST_REPRODUCE=$(or $(REPRODUCE),1) GOGC=400 $(GO) test -vet=off -count=1 -timeout 40m -run TestExactly ./reproduce ./reproduce/trimming \
		./reproduce/afd ./reproduce/aifo ./reproduce/hcsfq ./reproduce/deflection ./reproduce/netlock

test-reproduce-loads: ## measure the results of AFD, DPP and HCSFQ that take longer, and compare as test-reproduce does
	CANDELA_TEST_REPRODUCE=loads $(GO) test -count=1 -timeout 40m -run TestExactly ./reproduce/afd ./reproduce/hcsfq

lint: $(LINT) ## golangci-lint, gofmt, vet, tidy modules, builds for other systems
	@GO='$(GO)' LINT='$(LINT)' tools/lint

# Built from the module proxy, as pinned in tools/go.mod; the first build takes some minutes.
$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint (once, some minutes)"
	@cd tools && $(GO) build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

test-ci: ## test what .ci/run prints of steps that pass and of steps that fail
	@tools/ci-test

ci: ## everything that continuous integration runs
	@.ci/run

clean: ## remove what the other targets made, run directories included
	rm -rf bin .cache runs
	$(GO) clean -testcache
