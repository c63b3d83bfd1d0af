package capriccio_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// layers says what each folder may import of this module and from outside of the
// standard library. A folder that is not listed is a failure, so that the table grows
// with the project; design and table must agree.
var layers = map[string]string{
	".":                              "internal/engine task ressched stackchunk netpoll bgraph bgraph/graphview golang.org/x/sys/unix internal/poller internal/recorder internal/feed",
	"internal/coro":                  "",
	"internal/fromc":                 "",
	"internal/uring":                 "golang.org/x/sys/unix github.com/pawelgaczynski/giouring",
	"internal/kernel":                "golang.org/x/sys/unix",
	"internal/testenv":               "internal/kernel golang.org/x/sys/unix",
	"internal/httpcases":             "",
	"internal/chunk":                 "internal/coro",
	"internal/engine":                "internal/coro internal/chunk internal/funcname golang.org/x/sys/unix",
	"internal/sched":                 "internal/engine internal/coro",
	"internal/sim":                   "internal/engine",
	"internal/sim/programs":          "internal/sim stackchunk internal/engine",
	"internal/simserver":             "internal/engine bgraph internal/poller internal/recorder netpoll knot aio internal/probe internal/feed internal/kernel internal/coro golang.org/x/net/http2 golang.org/x/net/http2/hpack golang.org/x/sys/unix",
	"stackchunk":                     "internal/coro internal/chunk",
	"task":                           "internal/engine",
	"aio":                            "internal/engine internal/kernel internal/uring golang.org/x/sys/unix",
	"internal/poller":                "internal/engine",
	"netpoll":                        "internal/engine internal/poller ressched internal/kernel internal/uring golang.org/x/sys/unix",
	"internal/feed":                  "internal/engine bgraph internal/recorder internal/sched internal/probe internal/coro golang.org/x/sys/unix",
	"internal/breathe":               "internal/coro",
	"internal/funcname":              "",
	"internal/recorder":              "internal/engine internal/coro internal/breathe internal/funcname bgraph stackchunk",
	"bgraph":                         "internal/breathe internal/funcname",
	"internal/scc":                   "",
	"internal/flaghelp":              "",
	"bgraph/graphview":               "bgraph internal/funcname internal/scc",
	"bgraph/gotrace":                 "bgraph internal/funcname golang.org/x/exp/trace",
	"bgraph/graphhttp":               "internal/engine internal/recorder task bgraph bgraph/graphview",
	"internal/adapt":                 "",
	"flow":                           "internal/engine task ressched internal/adapt",
	"flow/flownet":                   "task ressched netpoll aio flow",
	"examples/flowweb":               ". task netpoll aio flow flow/flownet",
	"examples/memcache":              ". task netpoll",
	"examples/vod":                   ". task netpoll aio flow flow/flownet golang.org/x/sys/unix",
	"ressched":                       "internal/engine",
	"internal/probe":                 "golang.org/x/sys/unix",
	"knot":                           "knot/internal/h1 knot/internal/tlsout . internal/engine ressched internal/coro task netpoll aio stackchunk golang.org/x/net/http2 golang.org/x/net/http2/hpack golang.org/x/sys/unix",
	"knot/internal/h1":               "",
	"knot/internal/tlsout":           "task",
	"knot/compress":                  "knot github.com/andybalholm/brotli github.com/klauspost/compress/gzip github.com/klauspost/compress/zstd",
	"knot/proxy":                     "knot knot/internal/h1 knot/internal/tlsout internal/engine task netpoll aio",
	"knot/site":                      "knot task golang.org/x/crypto/bcrypt",
	"cmd/knot/internal/config":       "internal/flaghelp github.com/pelletier/go-toml/v2",
	"cmd/knot/internal/metrics":      "knot knot/proxy bgraph github.com/prometheus/client_golang/prometheus github.com/prometheus/client_golang/prometheus/collectors github.com/prometheus/client_golang/prometheus/promhttp",
	"cmd/knot":                       ". internal/engine ressched bgraph cmd/knot/internal/metrics cmd/knot/internal/config internal/flaghelp task netpoll knot knot/compress knot/proxy knot/site bgraph/graphhttp internal/probe golang.org/x/sys/unix golang.org/x/crypto/acme golang.org/x/crypto/acme/autocert",
	"cmd/bgdump":                     "bgraph bgraph/gotrace bgraph/graphview internal/flaghelp cmd/bgdump/web golang.org/x/sys/unix",
	"cmd/bgdump/web":                 "bgraph internal/funcname bgraph/graphview cmd/bgdump/web/internal/sample",
	"cmd/bgdump/web/internal/sample": "bgraph",
	"cmd/stackplan":                  "bgraph internal/flaghelp cmd/stackplan/internal/plan cmd/stackplan/internal/rewrite",
	"cmd/stackplan/internal/rewrite": "cmd/stackplan/internal/plan golang.org/x/tools/go/packages",
	"cmd/stackplan/internal/frames":  "",
	"cmd/stackplan/internal/plan":    "cmd/stackplan/internal/frames internal/scc bgraph golang.org/x/tools/go/packages golang.org/x/tools/go/ssa golang.org/x/tools/go/ssa/ssautil golang.org/x/tools/go/callgraph/vta",
	"bench":                          "github.com/google/pprof/profile . internal/engine task ressched netpoll aio stackchunk knot knot/proxy bgraph bgraph/gotrace bgraph/graphview internal/poller internal/recorder internal/sched internal/feed internal/uring golang.org/x/exp/trace internal/httpcases internal/flaghelp bench/internal/chores bench/internal/load bench/internal/models bench/internal/people bench/internal/proc bench/internal/report golang.org/x/sys/unix",
	"bench/internal/chores":          "",
	"bench/internal/load":            "github.com/HdrHistogram/hdrhistogram-go bench/internal/proc golang.org/x/sys/unix",
	"bench/internal/people":          "bench/internal/load",
	"bench/internal/models":          "golang.org/x/sys/unix",
	"bench/internal/proc":            "golang.org/x/sys/unix",
	"bench/internal/report":          "",
}

// testOnly may be imported by tests besides.
const testOnly = "golang.org/x/tools/go/packages flow internal/poller internal/httpcases internal/recorder github.com/prometheus/client_golang/prometheus/testutil internal/testenv aio bgraph bgraph/graphview bgraph/graphhttp internal/fromc internal/sim internal/sim/programs internal/coro internal/engine task ressched stackchunk netpoll knot . github.com/google/pprof/profile golang.org/x/net/nettest golang.org/x/net/netutil golang.org/x/net/http2 golang.org/x/net/http2/hpack golang.org/x/sys/unix"

// light are the packages that a program can use without what the web server needs besides.
var light = []string{".", "task", "netpoll", "aio", "stackchunk", "bgraph", "ressched", "knot"}

// heavy are beginnings of import paths that none of those may depend on.
var heavy = []string{"github.com/klauspost/", "github.com/andybalholm/", "github.com/pelletier/", "github.com/prometheus/", "golang.org/x/crypto/bcrypt", "golang.org/x/crypto/acme"}

// TestHeavyLibrariesStayOut of programs that only use the runtime, or Knot as a library.
func TestHeavyLibrariesStayOut(t *testing.T) {
	for _, dir := range light {
		out, err := exec.Command("go", "list", "-deps", "./"+dir).CombinedOutput()
		if err != nil {
			t.Fatalf("go list -deps ./%s: %v\n%s", dir, err, out)
		}
		for _, one := range strings.Fields(string(out)) {
			for _, prefix := range heavy {
				if strings.HasPrefix(one, prefix) {
					t.Errorf("%s depends on %s", dir, one)
				}
			}
		}
	}
}

const module = "github.com/capriccio-go/capriccio"

func TestImportsFollowTheLayers(t *testing.T) {
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." || strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		may, listed := layers[dir]
		if !listed {
			t.Errorf("%s is not in the table of layers", dir)
			return nil
		}
		if strings.HasSuffix(path, "_test.go") {
			may += " " + testOnly
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			what := strings.Trim(spec.Path.Value, `"`)
			if own, ok := strings.CutPrefix(what, module); ok {
				what = strings.TrimPrefix(own, "/")
				if what == "" {
					what = "."
				}
			} else if first, _, _ := strings.Cut(what, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if !strings.Contains(" "+may+" ", " "+what+" ") && what != dir {
				t.Errorf("%s imports %s; %s may import only: %s", path, what, dir, may)
			}
		}
		return nil
	})
	testenv.Must(t, err)
}

// A program that imports the root package does not get a web server, a template engine or
// a library for profiles with it.
func TestTheRootPackageIsLight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	testenv.Must(t, err, "go list")
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/bgraph") {
		t.Fatalf("go list names %d packages, and not %s/bgraph", len(deps), module)
	}
	for _, dep := range deps {
		for _, heavy := range []string{"net/http", "html/template", "text/template", "pprof", "x/exp/trace"} {
			if !strings.Contains(dep, "internal/runtime/") && ("/"+dep+"/" == "/"+heavy+"/" || strings.Contains("/"+dep+"/", "/"+heavy+"/")) {
				t.Errorf("the root package imports %s", dep)
			}
		}
	}
}
