# The steps of .ci/run and .ci/full, which source this file from the root of a clone. A step is a
# function; each runs in a shell of its own, whatever became of the steps before it.
set -euo pipefail
exec </dev/null

# Versions are pinned so that a new check does not break old commits. deadcode is of the version of golang.org/x/tools
# that the module requires.
export STATICCHECK=honnef.co/go/tools/cmd/staticcheck@v0.8.2
export DEADCODE=golang.org/x/tools/cmd/deadcode@v0.52.0

if [[ -z ${scratch:-} ]]; then # else this is the shell of a step
	scratch=$(mktemp -d)
	export scratch
	trap 'rm -rf "$scratch"; jobs -p | xargs -r kill' EXIT
	logs=$(mktemp -d "${TMPDIR:-/tmp}/ci-logs.XXXXXX")
	declare -a failed=() only=("$@") # with names of steps as arguments, only those run
	declare -i steps=0
fi
readonly shown=30 # lines of each test that failed

# run LIMIT_S FUNCTION TITLE runs FUNCTION and reports how it ended.
run() {
	((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $2 "* ]] || return 0
	steps+=1
	local began=$SECONDS status=0
	printf '\n=== %s\n' "$3"
	execute "$1" "$2" || status=$?
	report "$2" "$3" "$status" "$began" "$1"
}

# execute LIMIT_S FUNCTION runs FUNCTION in a shell of its own, so that errexit holds in it
# and the time limit ends all that it started.
execute() {
	TIMEFORMAT='%R s, %U s of CPU in programs and %S s in the kernel' timeout --kill-after=10 "$1" \
		bash -euo pipefail -c "source .ci/steps.sh; trap end_rest EXIT; time $2" >"$logs/$2" 2>&1
}

# end_rest ends the processes that a step has left: a test that ran out of time leaves the servers that it started. They
# are in the process group that timeout made for the step.
end_rest() {
	local one
	for one in $(pgrep -g 0); do
		((one == $$ || one == PPID)) || kill "$one" 2>/dev/null || true
	done
}

# report FUNCTION TITLE STATUS BEGAN LIMIT_S
report() {
	local log=$logs/$1 took=$((SECONDS - $4)) why="status $3"
	if (($3 == 0)); then
		if (($(wc -l <"$log") <= 12)); then
			cut -c 1-300 "$log"
		else
			printf '…, see %s\n' "$log"
			tail -n 3 "$log" | cut -c 1-300
		fi
		printf -- '--- ok: %s (%d s)\n' "$2" "$took"
		return
	fi
	(($3 != 124)) || why="not done after $took s of $5"
	printf -- '--- FAILED: %s: %s (%d s), see %s\n' "$2" "$why" "$took" "$log"
	failures "$log"
	failed+=("$1 $2: $why, see $log")
}

# failures LOG prints the last lines of each test that failed, the first ones of a panic or a
# data race, and the end of the log if there is neither.
failures() {
	awk -v shown="$shown" '
		function show(i) {
			for (i = head || n <= shown ? 1 : n - shown + 1; i <= n && (!head || i <= shown); i++) print substr(line[i], 1, 300)
			found += n
			n = on = head = 0
		}
		/^--- FAIL: /                         { show(); on = 1 }
		/^(panic|fatal error): /              { show(); on = head = 1 }
		/^WARNING: DATA RACE/ && !(on && head) { show(); on = head = 1 }
		/^(ok  |FAIL|PASS|\?|=== |--- (PASS|SKIP))/ { show() }
		/^FAIL\t/
		on                                    { line[++n] = $0 }
		END                                   { show(); exit found == 0 }
	' "$1" || tail -n "$shown" "$1" | cut -c 1-300
}

# names_of_failures LOG lists the tests that failed by package, in a line for each.
names_of_failures() {
	awk '
		/^--- FAIL: /      { names = names " " $3 }
		/^panic: test timed out/ { names = names " (time limit)" }
		/^FAIL\t/          { print "    " $2 (names == "" ? " " $3 " " $4 : names); names = "" }
	' "$1"
}

install_curl() {
	command -v curl >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends curl; }
	go version
	curl --version | head -n 1
}

# Only curl is needed; the others add peers to the experiments and load to the smoke
# test, so that not getting them is not a failure.
install_tools() {
	local -a missing=()
	command -v wrk >/dev/null || missing+=(wrk)
	command -v h2load >/dev/null || missing+=(nghttp2-client)
	PATH=$PATH:/usr/sbin command -v nginx >/dev/null || missing+=(nginx-light)
	command -v dot >/dev/null || missing+=(graphviz)
	command -v chromium >/dev/null || missing+=(chromium)
	[[ -e /usr/include/st.h ]] || missing+=(libst-dev)
	command -v strace >/dev/null || missing+=(strace)
	command -v debootstrap >/dev/null || missing+=(debootstrap)
	command -v buildah >/dev/null || missing+=(buildah crun)
	command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
	command -v redis-server >/dev/null || missing+=(redis-server)
	compgen -G '/usr/sbin/php-fpm*' >/dev/null || missing+=(php-fpm)
	command -v curl >/dev/null || missing+=(curl)
	if ((${#missing[@]} > 0)) && ((EUID == 0)) && command -v apt-get >/dev/null; then
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -qq || echo "apt-get update failed; going on with what is there"
		local package script before=" $(echo /etc/init.d/*) "
		for package in "${missing[@]}"; do
			apt-get install -y -qq --no-install-recommends "$package" >"$scratch/apt.log" 2>&1 ||
				{ echo "not installed: $package"; tail -n 3 "$scratch/apt.log"; }
		done
		# These packages start servers, which would disturb what is measured.
		for script in /etc/init.d/{nginx,redis-server,php*-fpm}; do
			[[ $before == *" $script "* || ! -e $script ]] || service "${script##*/}" stop >/dev/null 2>&1 || true
		done
	elif ((${#missing[@]} > 0)); then
		echo "not here, and not installed: ${missing[*]}"
	fi
	go version
	command -v curl
}

export STORAGES=knot_storage_s3,knot_storage_consul

# The packages of this module and of bench, which go.work names. The other modules are entered with GOWORK=off.
export ALL="./... ./bench/..."
# Packages that try more with CAPRICCIO_TEST=full: each poller, more loops, large programs.
# With the default they run under the race detector.
export FULL=". ./task ./internal/engine ./internal/coro ./stackchunk ./netpoll ./aio ./internal/uring ./internal/admit ./internal/sched ./internal/feed ./internal/simfleet ./knot ./knot/proxy ./knot/internal/store ./cmd/knot ./cmd/knot/internal/sharedstore ./internal/bgraph ./internal/graphview/export ./internal/recorder ./bench/... ./cmd/stackplan/..."

# without PACKAGES… lists all but these.
without() { go list $ALL | grep -vxFf <(go list "$@"); }

# tests ARGUMENTS… runs go test; a step of its own vets. Some packages wait more than they compute, so more of them run
# at a time than there are processors. A limit below that of the step lets a package that hangs show its stacks.
tests() {
	local log=$scratch/tests.$BASHPID status=0
	go test -vet=off -p $(($(nproc) + 1)) -timeout 900s "$@" 2>&1 | tee "$log" || status=$?
	((status == 0)) || all_known "$log" || return $status
}

# all_known LOG reports whether every failure of LOG is a test that .ci/flaky lists, "PACKAGE TEST DATE REASON" in each
# line. A panic, a data race and a time limit never are.
all_known() {
	local failed
	! grep -qE '^(panic|fatal error): |^WARNING: DATA RACE|\[(build|setup) failed\]' "$1" || return 1
	failed=$(awk '
		/^--- FAIL: / { name[++n] = $3 }
		/^FAIL\t/     { if (n == 0) print $2, "?"; for (; n > 0; n--) print $2, name[n] }
	' "$1")
	[[ -n $failed ]] || return 1
	while IFS= read -r one; do
		grep -qF "$one " .ci/flaky || return 1
		echo "known to fail at times: $(grep -F "$one " .ci/flaky)"
	done <<<"$failed"
}

# The command of README.
test_readme() { tests ./...; }
test_full() { CAPRICCIO_TEST=full tests -timeout 2000s $FULL; }

# Random scenarios of a whole server. A seed that fails is printed.
simulate_some() { CAPRICCIO_TEST=full go test -vet=off -timeout 580s ./internal/simserver -run 'TestSeeds$' -sim.first=10001 -sim.seeds=1000; }

# In two processes, as each uses one processor.
simulate() {
	export CAPRICCIO_TEST=full
	go test -vet=off -timeout 2000s ./internal/simserver -sim.seeds=3700 &
	local rest=$! status=0
	go test -vet=off -timeout 2000s ./internal/simserver -run 'TestSeeds$' -sim.first=3701 -sim.seeds=6300 || status=$?
	wait "$rest" && return "$status"
}

build_and_vet() {
	go build $ALL
	go vet $ALL # copylocks is one of its checks
	go vet -tags knot_dns_cloudflare,knot_dns_rfc2136 ./cmd/knot/internal/acme
	go vet -tags "$STORAGES" ./cmd/knot/internal/sharedstore
	go vet -tags giouring ./internal/uring ./aio ./netpoll
	go test -vet=off -tags "$STORAGES" ./cmd/knot/internal/sharedstore
	go test -tags otlp -run TestOTLP ./cmd/bgdump ./cmd/knot
}

build_modules() {
	local module
	for module in bench/peers bench/apps bench/libs bench/suites cmd/bgdump/web/browsertest cmd/knot/acmetest cmd/knot/orcatest; do
		(cd "$module" && export GOWORK=off && go build -o /dev/null ./... && go vet ./...) # a module with one command would leave its binary
	done
}

# build_server PACKAGE VERSION builds the program of another project into $scratch/servers, or says why not.
build_server() {
	local dir=$scratch/${1##*/}
	mkdir -p "$dir" "$scratch/servers"
	(cd "$dir" && go mod init servers && go get "$1@$2" && go build -mod=mod -o "$scratch/servers/" "$1") >"$dir.log" 2>&1 ||
		echo "no ${1##*/}: $(tail -n 1 "$dir.log")"
}

# Storages that several servers share. Tests of a server that can't be had are skipped. Consul 1.14 is under the MPL 2.0.
test_storages() {
	command -v redis-server >/dev/null || ((EUID != 0)) || ! command -v apt-get >/dev/null || { echo "install_tools has not installed redis-server"; return 1; }
	build_server github.com/hashicorp/consul v1.14.11
	build_server github.com/versity/versitygw/cmd/versitygw v1.8.0
	PATH=$scratch/servers:$PATH tests -count=1 -tags "$STORAGES" ./cmd/knot/internal/sharedstore
}

# Certificates by ACME with Pebble; skipped, with the reason, where that can't be had.
test_acme() {
	cd cmd/knot/acmetest
	if ! GOWORK=off go vet ./... >"$scratch/acme.log" 2>&1; then
		echo "skipped: $(tail -n 1 "$scratch/acme.log")"
		return
	fi
	PATH=$scratch/servers:$PATH GOWORK=off tests ./... # with the Consul of test_storages
}

# Load reports with the types of xds and the balancer of gRPC.
test_orca() { cd cmd/knot/orcatest && GOWORK=off tests ./...; }

# Routers, frameworks and WebSocket libraries on Knot.
test_apps() { cd bench/apps && GOWORK=off tests ./...; }

check_format() {
	local unformatted
	unformatted=$(gofmt -l .)
	if [[ -n $unformatted ]]; then
		echo "gofmt would change:"
		echo "$unformatted"
		return 1
	fi
}

# SA2001 finds empty critical sections, which tests and benchmarks of locks consist of.
run_staticcheck() {
	GOBIN=$scratch/bin go install "$STATICCHECK"
	"$scratch/bin/staticcheck" -checks inherit,-SA2001 $ALL
}

# What is neither public nor used by a program is dead, whatever tests call it. Packages and
# functions that are for tests of several packages are the exception.
find_dead_code() {
	local roots=.ci/roots.tmp
	trap 'rm -rf .ci/roots.tmp' EXIT
	mkdir -p "$roots"
	GOBIN=$scratch/bin go install "$DEADCODE"
	go run ./.ci/roots $(go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./... | grep -vE '/(internal|cmd|examples)(/|$)') >"$roots/main.go"
	"$scratch/bin/deadcode" -tags otlp -filter capriccio-go/capriccio "./$roots" $(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' $ALL) >"$scratch/dead"
	! grep -vE '^(internal/(sim|simserver|testenv|fromc|httpcases)|cmd/bgdump/web/internal/sample)/|unreachable func: (SimulateCycles|CreateRing|GoOn|Discard|RingFunc\.Ring)$|^internal/buckets/.* Of$' "$scratch/dead"
}

test_race_core() {
	tests -race . ./task ./netpoll ./internal/flow ./internal/engine ./internal/coro ./internal/recorder ./internal/admit ./internal/sched ./internal/feed ./ressched/...
}

# Left out is what has no concurrency, or only starts other processes.
test_race() {
	tests -timeout 2000s -race $(without ./cmd/stackplan/... ./internal/graphview/... ./internal/graphlayout ./internal/graphcompare ./internal/words ./internal/kernel \
		./internal/fromc ./bench/internal/report ./cmd/knot/internal/config ./cmd/bgdump/web/internal/sample)
}

# The page of bgdump in a real browser; skipped, with the reason, if there is none.
test_browser() {
	cd cmd/bgdump/web/browsertest
	GOWORK=off tests -v ./... >"$scratch/browser.log" 2>&1 || { cat "$scratch/browser.log"; return 1; }
	grep -E '^(--- SKIP|ok|PASS)' "$scratch/browser.log" | tail -n 5
}

# The ring and what polls with it, on the package whose names the ring has. It links
# only with that flag.
test_giouring() { tests -tags=giouring -ldflags=-checklinkname=0 ./internal/uring ./aio ./netpoll; }

# Packages that lean on how the Go runtime and its compiler work.
export CORE="./internal/engine ./internal/coro ./internal/fromc ./internal/chunk ./stackchunk"
export AROUND="./internal/bgraph ./internal/recorder ./internal/gotrace ./internal/funcname ./knot/internal/tlsin ./aio"

# Pointers that are not what they should be, and stack frames that are larger.
test_checkptr() { tests -short -gcflags=all=-d=checkptr $CORE ./internal/uring; }
test_unoptimized() { tests -short -gcflags='all=-N -l' $CORE && tests -gcflags='all=-N -l' -run=Key ./internal/recorder; }

# toolchain PATTERN prints the newest release of Go whose number matches, "go1.26.8";
# nothing if none is known or it can't be had.
toolchain() {
	local version
	version=$(go list -m -versions go 2>/dev/null | tr ' ' '\n' | grep -xE "$1" | sort -V | tail -n 1) || true
	if [[ -n $version ]] && GOTOOLCHAIN=go$version go version >"$scratch/toolchain.log" 2>&1; then
		echo "go$version"
	fi
}

# with_toolchain PATTERN PACKAGES… tests what leans on the Go runtime, and more packages,
# with another release of Go, and builds all but the experiments.
with_toolchain() {
	local chosen
	chosen=$(toolchain "$1")
	if [[ -z $chosen ]]; then
		echo "left out: no such release of Go is to be had"
		return 0
	elif [[ $chosen == "$(go env GOVERSION)" ]]; then
		echo "left out: it is the one in use, $chosen"
		return 0
	fi
	echo "with $chosen"
	export GOTOOLCHAIN=$chosen
	go build ./...
	tests -short $CORE $AROUND "${@:2}"
}
test_oldest_go() { with_toolchain '1\.26\.[0-9]+'; }
test_newest_go() { with_toolchain '[0-9]+\.[0-9]+(\.[0-9]+)?' ./netpoll ./knot; }

test_purego() { tests -tags=purego ./internal/coro ./internal/engine ./task; }

# Files and URLs are looked at from other systems, too.
check_other_systems() {
	local os
	for os in darwin windows; do
		GOOS=$os go build -o "$scratch/bgdump-$os" ./cmd/bgdump
		GOOS=$os go vet ./cmd/bgdump/... ./internal/gotrace # with its tests
		# What needs the runtime is refused by names that say why, and by nothing else.
		! GOOS=$os go build ./knot >"$scratch/refused" 2>&1 || return 1
		grep -q _needs_ "$scratch/refused"
		! grep -v -e '^#' -e _needs_ "$scratch/refused" || return 1
	done
}

check_arm64() {
	export GOARCH=arm64
	go vet $ALL
	go build $ALL
}

# The binary of a package is built once for all of its targets.
fuzz() {
	local dir package name names
	local -a dirs
	mapfile -t dirs < <(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u)
	((${#dirs[@]} > 0)) || { echo "there are no fuzz targets"; return 1; }
	for dir in "${dirs[@]}"; do
		package=$scratch/fuzz.${dir//\//_}.test
		go test -vet=off -c -fuzz . -o "$package" "$dir"
		names=$(cd "$dir" && "$package" -test.list '^Fuzz')
		[[ -n $names ]] || { echo "$dir lists no fuzz target"; return 1; }
		for name in $names; do
			fuzz_one "$dir" "$package" "$name" || return
		done
		rm -f "$package"
	done
}

# A target is tried again if it failed without an input that makes it fail: the testing package
# sometimes takes the end of the fuzzing time for a failure.
fuzz_one() {
	local attempt log=$scratch/fuzz.log
	for attempt in 1 2 3; do
		echo "$1 $3"
		if (cd "$1" && "$2" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime 4s -test.fuzzminimizetime 10x -test.fuzzcachedir "$scratch/fuzz") >"$log" 2>&1; then
			grep '^fuzz: elapsed' "$log" | tail -n 1
			return 0
		fi
		if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input' "$log"; then
			break
		fi
	done
	cat "$log"
	return 1
}

short_benchmarks() {
	go test -vet=off -timeout 1000s -run xxx -bench . -benchtime 100x . ./internal/coro ./internal/engine ./knot ./internal/bgraph ./internal/admit ./internal/sched
}

# Figures are not judged here: the machine is small and shared. What is shown is that
# the experiments run. A second attempt is allowed, as some samples are so short that a
# machine that is busy with something else gets nothing done in one.
quick_experiments() {
	go run ./bench list
	local name
	for name in primitives graph-overhead hello; do
		go run ./bench run "$name" -quick -out "$scratch/results" ||
			go run ./bench run "$name" -quick -out "$scratch/results"
		[[ -s $scratch/results/$name.json ]]
	done
}

# expect STATUS CURL_ARGUMENTS… asks once and compares the status.
expect() {
	local want=$1 got
	shift
	got=$(curl -sS --max-time 60 -o "$scratch/body" -w '%{http_code}' "$@")
	if [[ $got != "$want" ]]; then
		echo "curl $*: got $got, want $want"
		return 1
	fi
	echo "curl $*: $got"
}

smoke() {
	local out=$scratch/knot.out go_pid knot_pid="" url="" status=0 i
	go run ./cmd/knot -root ./knot/testdata/site -addr 127.0.0.1:0 >"$out" 2>&1 &
	go_pid=$!
	for ((i = 0; i < 600 && ${#url} == 0; i++)); do
		sleep 0.1
		url=$(grep -oE 'http://127\.0\.0\.1:[0-9]+' "$out") || true
		kill -0 "$go_pid" 2>/dev/null || break
	done
	# go run does not pass SIGTERM on to its child.
	knot_pid=$(cat "/proc/$go_pid/task/"*/children) || true
	knot_pid=${knot_pid// /}
	if [[ -z $url || -z $knot_pid ]]; then
		echo "knot did not start:"
		cat "$out"
		kill "$go_pid" 2>/dev/null || true
		return 1
	fi
	ask "$url" || status=1
	load "$url" || status=1
	look "$knot_pid" || status=1
	kill -TERM "$knot_pid"
	if ! wait "$go_pid"; then
		echo "knot did not end well after SIGTERM"
		status=1
	fi
	grep -qx stopped "$out" || { echo 'knot did not say "stopped"'; status=1; }
	if curl -sS --max-time 2 -o "$scratch/body" "$url/" 2>/dev/null; then
		echo "something still answers on $url"
		status=1
	fi
	cat "$out"
	return $status
}

ask() {
	local url=$1 site=knot/testdata/site
	expect 200 "$url/" && cmp "$scratch/body" $site/index.html || return
	expect 200 "$url/guide/" && cmp "$scratch/body" $site/guide/index.html || return
	expect 200 "$url/style.css" && cmp "$scratch/body" $site/style.css || return
	expect 200 --head "$url/about.html" || return
	expect 404 "$url/missing" || return
	expect 405 --data x "$url/" || return
	expect 400 --path-as-is "$url/../../../etc/passwd" || return
	expect 400 --path-as-is "$url/%2e%2e/%2e%2e/etc/passwd" || return
	printf 'header = "X-Long: %040000d"\n' 0 >"$scratch/long"
	expect 431 --config "$scratch/long" "$url/" || return
}

# look asks a running server for its blocking graph.
look() {
	local dump=$scratch/graph
	go run ./cmd/bgdump -o "$dump.txt" "$1" && grep -q start "$dump.txt" || return
	go run ./cmd/bgdump -svg -o "$dump.svg" "$1" && grep -q '</svg>' "$dump.svg" || return
	go run ./cmd/bgdump -pprof -o "$dump.pb.gz" "$1" && go tool pprof -top "$dump.pb.gz" | head -n 8
}

load() {
	local url=$1 log=$scratch/load.log
	if command -v wrk >/dev/null; then
		wrk -t 1 -c 64 -d 5s --timeout 60s "$url/" | tee "$log"
		if grep -E 'Socket errors|Non-2xx' "$log" || ! grep -qE '^ *[1-9][0-9]* requests in' "$log"; then
			echo "wrk met errors"
			return 1
		fi
	fi
	if command -v h2load >/dev/null; then
		h2load --h1 -t 1 -c 64 -D 5 "$url/" | tee "$log" | grep -E '^(finished|requests|status)'
		if ! grep -qE '^requests: [1-9][0-9]* total.* 0 failed, 0 errored, 0 timeout' "$log" ||
			! grep -qE '^status codes: [1-9][0-9]* 2xx, 0 3xx, 0 4xx, 0 5xx' "$log"; then
			echo "h2load met errors"
			return 1
		fi
	fi
}

# finish prints how the steps ended, and exits.
finish() {
	printf '\n=== %d s in all; the output of the steps is in %s\n' "$SECONDS" "$logs"
	if ((steps < ${#only[@]})); then
		echo "no such step among: ${only[*]}"
		exit 2
	fi
	if ((${#failed[@]} > 0)); then
		local one
		# Once more, since the middle of a long output may be cut out.
		for one in "${failed[@]}"; do
			printf '\n--- FAILED: %s\n' "${one#* }"
			failures "$logs/${one%% *}"
		done
		echo
		for one in "${failed[@]}"; do
			printf 'FAILED: %s\n' "${one#* }"
			names_of_failures "$logs/${one%% *}"
		done
		exit 1
	fi
	echo "all steps succeeded"
}

export RELEASE=0.1.0-rc.1 # a candidate, since dpkg compares its version in a way of its own

# The files of a release, each installed and run in a root folder that has nothing else. Skipped, with the reason, where
# a Debian system or an image can't be made.
test_release() {
	local tool missing="" out=$scratch/release
	for tool in debootstrap buildah dpkg-deb; do command -v "$tool" >/dev/null || missing+=" $tool"; done
	if [[ -n $missing ]] || ((EUID != 0)); then
		echo "skipped: it needs root and$missing"
		return
	fi
	(umask 077 && bash .ci/release "v$RELEASE" "$out")
	(cd "$out" && sha256sum --quiet -c SHA256SUMS)
	grep -q '"bomFormat": "CycloneDX"' "$out/knot_${RELEASE}_linux_amd64.cdx.json"
	grep -q 'pkg:golang/golang.org/x/sys@' "$out/knot_${RELEASE}_linux_amd64.cdx.json"
	release_package "$out"
	release_archive "$out"
	release_image "$out"
}

# says_version COMMAND… runs a program of a release; all of them say the same version and commit.
says_version() {
	"$@" -version | tee "$scratch/version"
	grep -qE " v${RELEASE//./\\.} \(commit $(git rev-parse --short=12 HEAD)\), go" "$scratch/version" || { echo "want v$RELEASE and the commit"; return 1; }
}

# names_licenses FILE reports whether a release names the licenses of what its programs contain.
names_licenses() {
	local one
	for one in Go 'golang.org/x/sys@.*/LICENSE' 'github.com/prometheus/client_golang@.*/NOTICE'; do
		grep -q "^==== $one\$" "$1" || { echo "$1 has no license of $one"; return 1; }
	done
}

# serves URL PAGE reports whether a server answers with a page that says PAGE; it may be starting.
serves() {
	curl -sS --retry 50 --retry-delay 0 --retry-connrefused --max-time 5 "$1" -o "$scratch/page" && grep -q "$2" "$scratch/page"
}

# release_package FOLDER installs the Debian package in a new Debian system, serves from there, and removes it, first
# without systemd, then with a program systemctl that only notes what it is asked.
release_package() {
	local root=$scratch/root knot asked
	debootstrap --variant=minbase --include=procps,logrotate bookworm "$root" >"$scratch/debootstrap.log" 2>&1 || { echo "skipped: no Debian system: $(tail -n 1 "$scratch/debootstrap.log")"; return 0; }
	cp "$1/capriccio_${RELEASE}_$(go env GOARCH).deb" "$root/package.deb"
	dpkg --compare-versions "$(dpkg-deb -f "$root/package.deb" Version)" lt "${RELEASE%-*}" || { echo "a candidate is newer than its release"; return 1; }
	chroot "$root" dpkg -i /package.deb
	[[ -x $root/bin/kill && -e $root/usr/lib/systemd/system/knot.socket ]] || { echo "knot.service needs /bin/kill and its socket"; return 1; }
	[[ -L $root/etc/systemd/system/multi-user.target.wants/knot.service ]] || { echo "knot.service is not enabled where systemd does not run"; return 1; }
	for program in knot bgdump stackplan; do says_version chroot "$root" $program; done
	names_licenses "$root/usr/share/doc/capriccio/copyright"
	mkdir -p "$root/var/log/knot" # systemd makes it, by LogsDirectory
	chroot "$root" knot check /etc/knot/knot.toml
	sed -i 's/^addr = .*/addr = "127.0.0.1:18473"/' "$root/etc/knot/knot.toml"
	chroot "$root" knot -quiet -config /etc/knot/knot.toml &
	knot=$!
	serves http://127.0.0.1:18473/ 'Knot is running'
	kill -TERM $knot
	wait $knot
	grep -q 'GET / HTTP/1.1' "$root/var/log/knot/access.log"
	chroot "$root" dpkg -r capriccio
	[[ -e $root/etc/knot/knot.toml && ! -e $root/usr/bin/knot ]] || { echo "removing the package keeps its configuration only"; return 1; }

	mkdir -p "$root/run/systemd/system"
	cat >"$root/usr/local/bin/systemctl" <<-'end'
		#!/bin/sh
		echo "$@" >>/asked
		case " $* " in
		*" start "*) touch /active ;;
		*" stop "*) rm -f /active ;;
		*" is-active "*) [ -e /active ] ;;
		*" is-enabled "*) [ ! -L /etc/systemd/system/multi-user.target.wants/knot.service ] || echo enabled ;;
		esac
	end
	chmod 755 "$root/usr/local/bin/systemctl"
	chroot "$root" dpkg -i /package.deb
	chroot "$root" dpkg -i /package.deb
	chroot "$root" dpkg -r capriccio
	chroot "$root" dpkg -i /package.deb
	chroot "$root" logrotate -f /etc/logrotate.d/capriccio
	[[ -s $root/var/log/knot/access.log.1 ]] || { echo "the access log is not rotated"; return 1; }
	asked=$(grep -owE 'start|USR1|stop|HUP' "$root/asked" | xargs)
	[[ $asked == "start USR1 stop start HUP" ]] || { echo "systemd is asked to $asked:"; cat "$root/asked"; return 1; }

	echo key >"$root/etc/knot/own.pem"
	mkdir -p "$root/var/lib/private/knot"
	ln -s private/knot "$root/var/lib/knot"
	chroot "$root" dpkg -P capriccio
	(cd "$root" && find etc var -path var/lib/dpkg -prune -o '(' -name '*knot*' -o -name capriccio ')' -print) | tee "$scratch/left"
	[[ $(<"$scratch/left") == etc/knot && $(ls "$root/etc/knot") == own.pem ]] || { echo "purging the package leaves other files than own.pem"; return 1; }
}

# release_archive FOLDER runs the programs of the archives in a root without any library, and for arm64 by QEMU where it
# is there.
release_archive() {
	local root=$scratch/bare
	mkdir "$root"
	tar -tvzf "$1/capriccio_${RELEASE}_linux_$(go env GOARCH).tar.gz" >"$scratch/modes"
	! grep -vE '^(-r.-r--r--|[-d]r.xr-xr-x) ' "$scratch/modes" || { echo "others can't read these files"; return 1; }
	tar -C "$root" -xzf "$1/capriccio_${RELEASE}_linux_$(go env GOARCH).tar.gz" --strip-components=1
	for program in knot bgdump stackplan; do says_version chroot "$root" /$program; done
	names_licenses "$root/THIRD-PARTY-LICENSES"
	chroot "$root" /knot -root / -addr 127.0.0.1:18474 -quiet &
	serves http://127.0.0.1:18474/README.md 'Capriccio for Go'
	kill -TERM $!
	wait $!
	if command -v qemu-aarch64-static >/dev/null; then
		mkdir "$root/arm64"
		tar -C "$root/arm64" -xzf "$1/capriccio_${RELEASE}_linux_arm64.tar.gz" --strip-components=1
		says_version qemu-aarch64-static "$root/arm64/bgdump"
	fi
}

# release_image FOLDER runs the image as its user, with its own command, at other ports.
release_image() {
	local container process status=0
	local -a command
	[[ -e $1/knot_${RELEASE}_image_$(go env GOARCH).tar ]] || { echo "skipped: no image was made"; return 0; }
	container=$(buildah --storage-driver vfs from --pull-never "oci-archive:$1/knot_${RELEASE}_image_$(go env GOARCH).tar")
	names_licenses "$(buildah --storage-driver vfs mount "$container")/THIRD-PARTY-LICENSES"
	buildah --storage-driver vfs inspect --format '{{range .OCIv1.Config.Entrypoint}}{{println .}}{{end}}{{range .OCIv1.Config.Cmd}}{{println .}}{{end}}' "$container" >"$scratch/command"
	mapfile -t command <"$scratch/command"
	command=("${command[@]/#:8080/127.0.0.1:18475}")
	command=("${command[@]/#0.0.0.0:9090/127.0.0.1:18476}")
	says_version buildah --storage-driver vfs run --isolation chroot "$container" -- "${command[0]}"
	buildah --storage-driver vfs run --isolation chroot "$container" -- "${command[@]}" >"$scratch/image.log" &
	process=$!
	serves http://127.0.0.1:18475/ 'from <code>/public</code>' || status=1
	serves http://127.0.0.1:18476/readyz '' || status=1
	# buildah starts Knot by processes of its own.
	while [[ $(<"/proc/$process/comm") != knot ]]; do process=$(pgrep -P "$process"); done
	kill -TERM "$process"
	wait $! || status=1
	cat "$scratch/image.log"
	grep -q '"status":200' "$scratch/image.log" || status=1
	buildah --storage-driver vfs rm "$container" >/dev/null
	return $status
}
