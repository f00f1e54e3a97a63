# portald: build, see, test, measure. `make` alone says what there is.
GO       ?= go
BIN      := bin
FUZZTIME ?= 10s
RESTARTS ?= 200
SEED     ?= 0
DURATION ?= 1m
TO       ?= dist
# An ordinary user's PATH on Debian leaves the last two out.
export PATH := $(PATH):/usr/sbin:/sbin

STATICCHECK_VERSION := v0.8.2
# A staticcheck built by an older Go refuses what a newer one reads: one for each pair.
STATICCHECK = $(BIN)/staticcheck-$(STATICCHECK_VERSION)-$(shell $(GO) env GOVERSION)
# A checkout that belongs to somebody else has no revision that git would tell.
VCS = $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

HELM_VERSION := v3.22.0
# Of nfpm, what is newer asks for modules that the proxy of modules does not have.
NFPM        := nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
CYCLONEDX   := cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
CLASSIFIER  := identify_license github.com/google/licenseclassifier/v2/tools/identify_license@v2.0.0
GOVULNCHECK := govulncheck golang.org/x/vuln/cmd/govulncheck@v1.9.0
INDEXDB     := indexdb golang.org/x/vulndb/cmd/indexdb@v0.0.0-20261105234957-e22db6528018
# What a release is made by, whichever Go is installed: one without known vulnerabilities.
RELEASE_GO := go1.26.11
EXACTLY    := GOTOOLCHAIN=$(RELEASE_GO) GOFLAGS=

# What targets need, as COMMAND=PACKAGE or FILE=PACKAGE.
RUN_NEEDS   := iptables=iptables ip=iproute2 nsenter=util-linux
BENCH_NEEDS := $(RUN_NEEDS) nft=nftables haproxy=haproxy nginx=nginx iperf3=iperf3 \
	/usr/lib/nginx/modules/ngx_stream_module.so=libnginx-mod-stream
TEST_NEEDS  := $(BENCH_NEEDS) gcc=gcc /usr/include/stdlib.h=libc6-dev \
	curl=curl git=git dig=bind9-dnsutils tshark=tshark tcpdump=tcpdump redis-server=redis-server redis-cli=redis-tools /lib/systemd/systemd=systemd

FLAPS_NEEDS := $(RUN_NEEDS) nft=nftables curl=curl redis-server=redis-server redis-benchmark=redis-tools \
	setpriv=util-linux /usr/lib/postgresql/15/bin/initdb=postgresql-15

# A virtual machine whose kernel has IPVS, and what is used in it.
VM_NEEDS := qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio depmod=kmod setpriv=util-linux \
	iptables=iptables nft=nftables ip=iproute2 ipset=ipset ipvsadm=ipvsadm conntrack=conntrack

DEPLOY_NEEDS := shellcheck=shellcheck jq=jq promtool=prometheus
# PowerShell's grammar, for systems without PowerShell.
GRAMMAR := web-tree-sitter@0.25.10 tree-sitter-powershell@0.26.4
# ClickHouse and Vector's language as libraries, to run deploy/records.
PIPELINE := chdb@3.4.0 @bpinternal/verel@0.2.0 yaml@2.9.1

.DEFAULT_GOAL := help
.PHONY: help build man notice release check-release vulnerabilities try demo kubetest unit test test-all test-api test-ipvs \
	test-windows test-arm64 test-ui check-deploy \
	check-pipeline lint bench bench-scale flaps handover crashes chaos migrate fuzz restarts clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

build:  ## bin/portald and bin/kubectl-portald, static
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -o $(BIN)/ ./cmd/portald ./cmd/kubectl-portald

man: build  ## bin/man, a man page for each command
	$(BIN)/portald man --dir $(BIN)/man

notice:  ## NOTICE, of the modules that are built in; CHECK=1: say whether it is of those
	@made=$$(GO=$(GO) .ci/tool $(CLASSIFIER)) && \
		$(EXACTLY) $(GO) run -buildvcs=false ./integration/release notice -classifier "$$made" $(if $(CHECK),-check)

release:  ## dist/: archives, .deb and .rpm of the commit that is checked out, bills of materials, SHA256SUMS; HERE=1: of this system
	@.ci/need git=git
	@nfpm=$$(GO=$(GO) .ci/tool $(NFPM)) && cyclonedx=$$(GO=$(GO) .ci/tool $(CYCLONEDX)) && \
		$(EXACTLY) $(GO) run -buildvcs=false ./integration/release pack -nfpm "$$nfpm" -cyclonedx "$$cyclonedx" -to $(TO) $(if $(HERE),-here)

check-release: release  ## make notice CHECK=1, and the .deb installed, upgraded, removed and purged on an overlay of this host
	@.ci/need git=git rpm=rpm curl=curl ip=iproute2 iptables=iptables
	@$(MAKE) --no-print-directory notice CHECK=1
	.ci/check-packages $(TO)

vulnerabilities:  ## what the Go vulnerability database knows of what a release calls; REQUIRE_VULNDB=1: it must be reached
	@.ci/need curl=curl
	@check=$$(GO=$(GO) .ci/tool $(GOVULNCHECK)) && index=$$(GO=$(GO) .ci/tool $(INDEXDB)) && \
		$(EXACTLY) GO=$(GO) .ci/vulnerabilities "$$check" "$$index"

try: build  ## one Service from a manifest, a few connections, and what portald tells of them: no cluster, a few seconds
	@.ci/need $(RUN_NEEDS) curl=curl
	@$(GO) build -buildvcs=false -o $(BIN)/try ./integration/try
	@$(BIN)/try -portald $(BIN)/portald

demo: build  ## see it work: under a minute, in network namespaces of its own
	@.ci/need $(RUN_NEEDS)
	@$(GO) build -buildvcs=false -o $(BIN)/demo ./integration/demo
	@$(BIN)/demo --portald $(BIN)/portald

kubetest:  ## a control plane for tests; the first time ten minutes of CPU, then kept in ~/.cache/portald
	@mkdir -p $(BIN)
	@made=$$(GO=$(GO) .ci/kubetest) && ln -sfn "$$made" $(BIN)/kubetest

# As .ci/kubetest compiles kube-proxy's packages, which has them in Go's cache: 15 s, and without that minutes.
AS_KUBETEST    := CGO_ENABLED=0 GOWORK=off $(GO)
KUBETEST_FLAGS := -trimpath -buildvcs=false

GOTESTSUM := gotestsum gotest.tools/gotestsum@v1.13.0
# go test with one line at the end that says how many tests passed. A failure is a failure: nothing runs again.
SUMMED = "$$(GO=$(GO) .ci/tool $(GOTESTSUM))" --format pkgname-and-test-fails --format-hide-empty-pkg --hide-summary=skipped
# In integration portald alone has the race detector, whatever else runs there: see .ci/test. make lint vets, and nobody
# debugs what is linked here.
UNVETTED    := -vet=off -ldflags=-w -count=1 -timeout 20m
INTEGRATION := RACE_PORTALD=1 CGO_ENABLED=0

unit:  ## what to run after each edit: no root, no namespaces, half a minute
	@$(SUMMED) -- -short -p 6 $$($(GO) list ./cmd/... ./platform/... ./portal/... ./proxy/...)

test:  ## all tests that need no control plane, no virtual machine and no Wine, with the race detector; REQUIRE_ALL=1: none is skipped
	@.ci/need $(TEST_NEEDS)
	@.ci/may-make-namespaces
	@GO=$(GO) .ci/landed $$(cat .ci/version-before) >/dev/null || test $$? = 3
	@GO=$(GO) $(SUMMED) --raw-command -- .ci/test

test-all: test test-api test-ipvs test-windows test-ui  ## the same, and the tests of all other parts

test-api: kubetest  ## the tests beside a control plane: API server, kube-proxy
	@.ci/need $(TEST_NEEDS) chromium=chromium
	@.ci/may-make-namespaces
	cd integration/kubetest && $(AS_KUBETEST) test $(KUBETEST_FLAGS) $(UNVETTED) ./plane ./surface
	@OTHER_PARTS=ipvs KUBETEST=$(abspath $(BIN)/kubetest) $(INTEGRATION) $(SUMMED) -- -trimpath $(UNVETTED) \
		./integration/api ./integration/fleet ./integration/migrate ./integration/cluster ./integration/scale
	@KUBETEST=$(abspath $(BIN)/kubetest) $(INTEGRATION) $(SUMMED) -- -trimpath $(UNVETTED) -run TestDeployed ./integration/modes
	@KUBETEST=$(abspath $(BIN)/kubetest) $(INTEGRATION) $(SUMMED) -- -trimpath $(UNVETTED) -run TestChaosOfACluster ./integration/chaos

# Without hardware support the machine is some twenty times slower than this one: only what needs its kernel runs there.
# It has one processor: two take a quarter more of the host for the same, and leave nothing for what runs beside it.
VMTEST = CGO_ENABLED=0 VM_CPUS=1 VM_MEM=1536M VM_TIMEOUT=1500 $(GO) test -trimpath $(UNVETTED) -timeout 26m -exec $(abspath integration/vmrun)
test-ipvs: test-ipvs-migrate test-ipvs-rules test-ipvs-traffic test-ipvs-modes  ## the part of the tests that needs a kernel with IPVS, in a virtual machine

.PHONY: vm guest-portald test-ipvs-migrate test-ipvs-rules test-ipvs-traffic test-ipvs-modes
vm:
	@.ci/need $(VM_NEEDS)
# .ci/run has two that take it into their machines beside each other: the second finds it built, and leaves it alone.
guest-portald:
	@mkdir -p $(BIN) && CGO_ENABLED=0 flock $(BIN)/guest.lock \
		$(GO) build -trimpath -buildvcs=false -o integration/modes/testdata/guest/portald ./cmd/portald

test-ipvs-migrate: vm kubetest
	@mkdir -p integration/migrate/testdata/guest && cp -L $(BIN)/kubetest integration/migrate/testdata/guest
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o integration/migrate/testdata/guest/portald ./cmd/portald
	$(VMTEST) -run TestThereAndBackWithIPVS ./integration/migrate

test-ipvs-rules: vm
	$(VMTEST) -run TestRender ./cmd/portald
	$(VMTEST) ./portal/ipvs -quick
	$(VMTEST) -run TestTenants/ipvs ./integration/tenants

test-ipvs-traffic: vm guest-portald
	$(VMTEST) -run 'TestMatrix|TestModeOfAService|TestSwitchUnderLoad|TestServersOfTheHost|TestEndpointsThatAreFrontends|TestKernelRecords|TestAlgorithms|TestRefusedPackets' ./integration/modes

test-ipvs-modes: vm kubetest guest-portald
	@ln -sfn kubetest $(BIN)/kubectl && mkdir -p integration/modes/testdata/guest/deploy
	PATH=$(abspath $(BIN)):$$PATH deploy/render replace ipvs >integration/modes/testdata/guest/deploy/replace-ipvs.yaml
	$(VMTEST) -run 'TestRestartsUnderLoad|TestKernelDoesNotCarryAlike|TestExplain$$|TestSCTP$$|TestDeployed' ./integration/modes
	$(VMTEST) -run 'TestClientsCome|TestDatagramsCome|TestWipedRules' ./integration/modes
	$(VMTEST) -run 'TestAbsence|TestHealthCheckPort|TestLeftoverOfAPod' ./integration/modes

test-windows: kubetest  ## the tests of the Windows build: of all packages by Wine, and of portald.exe in namespaces
	@.ci/need $(TEST_NEEDS)
	@.ci/may-make-namespaces
	@GO=$(GO) KUBETEST=$(abspath $(BIN)/kubetest) .ci/test-windows

UI_NEEDS := $(RUN_NEEDS) chromium=chromium
test-ui:  ## the page of portald ui, in a headless Chromium; PICTURES=DIR: with pictures of each view
	@.ci/need $(UI_NEEDS)
	@.ci/may-make-namespaces
	@$(INTEGRATION) $(SUMMED) -- -trimpath $(UNVETTED) ./integration/ui $(if $(PICTURES),-pictures $(abspath $(PICTURES)))

test-arm64:  ## the arm64 build, and by qemu the tests of what is pure
	@GO=$(GO) .ci/test-arm64

check-deploy: build kubetest  ## what is in deploy/, by the tools that it is for
	@.ci/need $(DEPLOY_NEEDS)
	@ln -sfn kubetest $(BIN)/kubectl
	@made=$$(GO=$(GO) .ci/tool helm helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)) && ln -sfn "$$made" $(BIN)/helm
	@command -v npm >/dev/null || exit 0; made=$$(.ci/modules $(GRAMMAR)) && ln -sfn "$$made" $(BIN)/grammar
	PATH=$(abspath $(BIN)):$$PATH PORTALD=$(abspath $(BIN)/portald) GRAMMAR=$(abspath $(BIN)/grammar) deploy/check

check-pipeline:  ## records through Vector's language into ClickHouse and Loki's engine; the first time 600 MB by npm, and minutes of CPU
	@.ci/need node=nodejs npm=npm $(RUN_NEEDS)
	@.ci/may-make-namespaces
	@mkdir -p $(BIN)
	@made=$$(.ci/modules $(PIPELINE)) && ln -sfn "$$made" $(BIN)/pipeline
	node deploy/records/check.mjs $(abspath $(BIN)/pipeline)
	@made=$$(GO=$(GO) .ci/logql) && ln -sfn "$$made" $(BIN)/logql
	PIPELINE=$(abspath $(BIN)/pipeline) LOGQL=$(abspath $(BIN)/logql) REQUIRE_ALL=1 $(INTEGRATION) \
		$(GO) test -trimpath $(UNVETTED) ./integration/records

# As make build compiles, which has the packages in Go's cache.
CACHED := CGO_ENABLED=0 GOFLAGS=-trimpath
# U1000 is left out on windows: much of what both systems compile is called on Linux alone.
lint: $(STATICCHECK)  ## gofmt, vet and staticcheck, for linux and windows
	@bad=$$($$($(GO) env GOROOT)/bin/gofmt -l cmd integration platform portal proxy) && \
		test -z "$$bad" || { echo "gofmt would change:" $$bad; exit 1; }
	@.ci/beside 'export GOOS=linux; $(CACHED) $(GO) vet ./... && $(CACHED) $(STATICCHECK) ./...' \
		'export GOOS=windows; $(CACHED) $(GO) vet ./... && $(CACHED) $(STATICCHECK) -checks inherit,-U1000 ./...' \
		'cd integration/kubetest && $(AS_KUBETEST) vet $(KUBETEST_FLAGS) ./plane ./surface && $(CACHED) GOWORK=off $(abspath $(STATICCHECK)) ./plane'

$(STATICCHECK):
	GOBIN=$(abspath $(BIN)) $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(BIN)/staticcheck $@

bench: build  ## HAProxy, nginx and kernel DNAT beside it, and kernel modes with many Services: docs/benchmarks.md; QUICK=1: less
	@.ci/need $(BENCH_NEEDS)
	@$(GO) build -buildvcs=false -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench -portald $(BIN)/portald

flaps: build kubetest  ## real clients by portald and kube-proxy while endpoints fail: docs/retries.md; FLAPS='-seed 7 …'
	@.ci/need $(FLAPS_NEEDS)
	@$(GO) build -buildvcs=false -o $(BIN)/flaps ./integration/flaps
	@KUBETEST=$(abspath $(BIN)/kubetest) $(BIN)/flaps -portald $(BIN)/portald $(FLAPS)

bench-scale: build kubetest  ## beside kube-proxy with 1,000 to 30,000 Services: docs/scale.md, 40 minutes; QUICK=1: two minutes
	@.ci/need $(RUN_NEEDS) nft=nftables
	@$(GO) build -buildvcs=false -o $(BIN)/scale ./integration/scale
	@KUBETEST=$(abspath $(BIN)/kubetest) $(BIN)/scale -portald $(BIN)/portald $(SCALE)

handover:  ## 5,000 connections and 3,000 new ones a second, twenty portalds one after the other; then 1,000, and nothing is left over
	@.ci/need $(RUN_NEEDS)
	@.ci/may-make-namespaces
	$(GO) test -count=1 -v -timeout 10m -run TestNobodyNotices ./integration/handover -full $(HANDOVER)
	$(GO) test -count=1 -v -timeout 60m -run TestNothingIsLeftOver ./integration/handover -often 1000

crashes:  ## kill -9 twenty times under that load, with a keeper, and 200 times at random moments: no stream is corrupt
	@.ci/need $(RUN_NEEDS)
	@.ci/may-make-namespaces
	$(GO) test -count=1 -v -timeout 15m -run TestKilledUnderLoad ./integration/handover -full $(HANDOVER)
	$(GO) test -count=1 -v -timeout 60m -run TestCrashes ./integration/handover -kills 200

chaos: kubetest  ## faults of all kinds at random, in every mode and on three nodes of a cluster, every byte compared; SEED="7 0" DURATION=5m; 0: at random
	@.ci/need $(RUN_NEEDS) nft=nftables
	@.ci/may-make-namespaces
	for seed in $(SEED); do \
		KUBETEST=$(abspath $(BIN)/kubetest) $(GO) test -race -count=1 -v -timeout 4h ./integration/chaos -seed $$seed -duration $(DURATION) || exit 1; \
	done

migrate: kubetest  ## from kube-proxy in each mode to each mode of portald and back, under load
	@.ci/need $(RUN_NEEDS) nft=nftables
	@.ci/may-make-namespaces
	KUBETEST=$(abspath $(BIN)/kubetest) $(GO) test -count=1 -v -timeout 10m -run 'TestThereAndBack$$' ./integration/migrate -full

fuzz:  ## each fuzz test for FUZZTIME (10s)
	@grep -roE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sort | while IFS=: read -r file name; do \
		echo "$${name#func } in $$(dirname $$file)"; \
		$(GO) test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) \
			-fuzzminimizetime 20x "$$(dirname $$file)" || exit 1; \
	done

restarts:  ## the daemon away RESTARTS (200) times under load, in each kernel mode: five minutes, and by IPVS an hour
	@.ci/need $(TEST_NEEDS) $(VM_NEEDS)
	@.ci/may-make-namespaces
	$(GO) test -count=1 -timeout 2h -v -run TestAbsence ./integration/modes -restarts $(RESTARTS)
	CGO_ENABLED=0 $(GO) build -buildvcs=false -o integration/modes/testdata/guest/portald ./cmd/portald
	CGO_ENABLED=0 VM_MEM=1024M VM_TIMEOUT=7200 $(GO) test -count=1 -timeout 2h -exec $(abspath integration/vmrun) \
		-v -run TestAbsence ./integration/modes -restarts $(RESTARTS)

clean:  ## remove what was built
	rm -rf $(BIN)
