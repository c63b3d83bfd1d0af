package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A suite is a published module whose tests start servers by net/http/httptest.
type suite struct {
	name, module, version string
	folders               []string // that are looked at; none: all
	// differs are tests that rely on what docs/net-http.md says is different, or on what a test can't do elsewhere.
	differs []string
	copy    func(r *run, folder string) error // instead of the module's: makes the folder
	flags   []string                          // for go test
	large   bool                              // takes minutes: runs if it is named
}

const suitesName = "suites"

var suites = []suite{
	{name: "net-http", copy: (*run).copyNetHTTP, flags: []string{"-short"}, differs: []string{
		"TestH12_HandlerWritesTooLittle",                                       // resets the stream
		"TestHTTP2UpgradeClosesConnection", "TestServerHandlersCanHandleH2PRI", // HTTP/2 with prior knowledge is taken
		"TestServer(SetKeepAlivesEnabled.*|KeepAlivesEnabled.*|Shutdown)",  // methods of the http.Server itself
		"TestTransportRemovesDeadIdleConnections",                          // goes on after CloseClientConnections
		"TestTLSHandshakeTimeout",                                          // wants a line of a client that has said nothing
		"TestHijackAfterCloseNotifier", "TestReverseProxyWebSocketHalfTCP", // want a *net.TCPConn
		"TestFileServerNullByte", "TestStarRequestMethod", "TestUnsupportedTransferEncodings.*", // get 400
		"TestNoContentLengthIfTransferEncoding", "TestTransportRejectsSignInContentLength", // malformed answers of a handler
		"TestTrailersServerToClient", "TestInterruptWithPanic", "TestTransportPersistConnLeak", // length and trailer in HTTP/2; logs a Goexit; counts goroutines
	}},
	{name: "chi", module: "github.com/go-chi/chi/v5", version: "v5.5.0"},
	{name: "gin", module: "github.com/gin-gonic/gin", version: "v1.12.0"},
	{name: "echo", module: "github.com/labstack/echo/v4", version: "v4.16.0"},
	{name: "gorilla-handlers", module: "github.com/gorilla/handlers", version: "v1.5.2"},
	{name: "gorilla-websocket", module: "github.com/gorilla/websocket", version: "v1.5.3"},
	{name: "coder-websocket", module: "github.com/coder/websocket", version: "v1.8.15"},
	{name: "go-httpbin", module: "github.com/mccutchen/go-httpbin/v2", version: "v2.26.0"},
	{name: "go-sse", module: "github.com/tmaxmax/go-sse", version: "v0.12.0"},
	{name: "goproxy", module: "github.com/elazarl/goproxy", version: "v1.9.3"},
	{name: "otelhttp", module: "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", version: "v0.69.0"},
	{name: "client_golang", module: "github.com/prometheus/client_golang", version: "v1.25.0"},
	{name: "httpsnoop", module: "github.com/felixge/httpsnoop", version: "v1.1.0", differs: []string{
		"TestCaptureMetrics", // a panic gets 500
	}},
	{name: "compress", module: "github.com/klauspost/compress", version: "v1.20.4"},
	{name: "scs", module: "github.com/alexedwards/scs/v2", version: "v2.9.0"},
	{name: "x-net", module: "golang.org/x/net", version: "v0.62.0", folders: []string{"http2/h2c", "webdav", "websocket", "context"}, differs: []string{ // http2: in bubbles of testing/synctest
		"TestPropagation", // a head that is too large gets 431, unless the client has read the limit by then
	}},
	{name: "mcp-sdk", module: "github.com/modelcontextprotocol/go-sdk", version: "v1.6.1", differs: []string{
		"TestStreamableServerShutdown", // Shutdown of the http.Server itself
	}},
	{name: "connect", large: true, module: "connectrpc.com/connect", version: "v1.11.1"},
	{name: "gqlgen", large: true, module: "github.com/99designs/gqlgen", version: "v0.17.98", folders: []string{"graphql"}},
	{name: "resty", large: true, module: "github.com/go-resty/resty/v2", version: "v2.17.2"},
	{name: "req", large: true, module: "github.com/imroc/req/v3", version: "v3.57.0"},
	{name: "retryablehttp", large: true, module: "github.com/hashicorp/go-retryablehttp", version: "v0.7.8"},
	{name: "oxy", large: true, module: "github.com/vulcand/oxy/v2", version: "v2.0.3", differs: []string{
		"TestTracer_TLS", // wants HTTP/1.0 in the status line
	}},
	{name: "echo5", large: true, module: "github.com/labstack/echo/v5", version: "v5.4.4"},
	{name: "moby-client", large: true, module: "github.com/moby/moby/client", version: "v0.6.2"},
	{name: "vault-api", large: true, module: "github.com/hashicorp/vault/api", version: "v1.23.0"},
	{name: "centrifuge", large: true, module: "github.com/centrifugal/centrifuge", version: "v0.40.1"},
	{name: "distribution", large: true, module: "github.com/distribution/distribution/v3", version: "v3.1.2"},
	{name: "go-ethereum", large: true, module: "github.com/ethereum/go-ethereum", version: "v1.17.6", folders: []string{"rpc", "node"}},
	{name: "apimachinery", large: true, module: "k8s.io/apimachinery", version: "v0.37.1", differs: []string{
		"TestProxyTransport", // a path with a NUL
	}},
	{name: "client-go", large: true, module: "k8s.io/client-go", version: "v0.37.1", folders: []string{"transport", "rest", "tools", "util"}},
}

// The changes to net/http/httptest: what it does when it is told to serve elsewhere.
var httptestChanges = [][2]string{
	{"// A Server is an HTTP server listening", `// Set by a test program whose servers are to be others.
var (
	ListenElsewhere func() (net.Listener, error)
	ServeElsewhere  func(net.Listener, *http.Server, *tls.Config) (closed, drop func())
)

// A Server is an HTTP server listening`},
	{"	mu     sync.Mutex // guards closed and conns\n", "	plain        net.Listener\n	closed2, drop func()\n\n	mu     sync.Mutex // guards closed and conns\n"},
	{"	l, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n", `	if ListenElsewhere != nil {
		l, err := ListenElsewhere()
		if err != nil {
			panic(err)
		}
		return l
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
`},
	{"	s.Listener = tls.NewListener(s.Listener, s.TLS)\n", "	s.plain = s.Listener\n	s.Listener = tls.NewListener(s.Listener, s.TLS)\n"},
	{"	s.wrap()\n	s.goServe()\n", "	if !s.elsewhere() {\n		s.wrap()\n		s.goServe()\n	}\n"},
	{"	s.wg.Wait()\n}\n", `	if s.closed2 != nil {
		s.closed2()
	}
	s.wg.Wait()
}

func (s *Server) elsewhere() bool {
	if ServeElsewhere == nil {
		return false
	}
	ln := s.Listener
	if s.plain != nil {
		ln = s.plain
	}
	s.closed2, s.drop = ServeElsewhere(ln, s.Config, s.TLS)
	return true
}
`},
	{"func (s *Server) CloseClientConnections() {\n", "func (s *Server) CloseClientConnections() {\n	if s.drop != nil {\n		s.drop()\n		return\n	}\n"},
}

// overlayHTTPTest writes net/http/httptest with those changes, and returns the file for -overlay. What export_test.go adds to
// net/http for its own tests is there too.
func (r *run) overlayHTTPTest() (string, error) {
	netHTTP, err := r.netHTTP()
	if err != nil {
		return "", err
	}
	original := filepath.Join(netHTTP, "httptest/server.go")
	changed, overlay := filepath.Join(r.scratch, "httptest-server.go"), filepath.Join(r.scratch, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed, filepath.Join(netHTTP, "exported.go"): filepath.Join(netHTTP, "export_test.go")}})
	return overlay, errors.Join(err, copyChanged(original, changed, httptestChanges), os.WriteFile(overlay, list, 0o666))
}

// netHTTP is the folder of package net/http.
func (r *run) netHTTP() (string, error) {
	root, err := exec.CommandContext(r.ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src/net/http"), nil
}

// copyChanged copies a file with changes, pairs of old and new text. It fails if one of the old texts is missing.
func copyChanged(from, to string, changes [][2]string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	for _, change := range changes {
		if !bytes.Contains(text, []byte(change[0])) {
			return fmt.Errorf("%s of this release of Go has no %q", from, change[0])
		}
		text = bytes.ReplaceAll(text, []byte(change[0]), []byte(change[1]))
	}
	return os.WriteFile(to, text, 0o666)
}

// copySuite makes a copy of the module that has bench/suites in the tests of each package that starts servers.
// It returns the copy and these packages.
func (r *run) copySuite(s suite) (folder string, packages []string, err error) {
	root, err := moduleFolder(r.ctx)
	if err != nil {
		return "", nil, err
	}
	folder = filepath.Join(r.scratch, "suite-"+s.name)
	if s.copy == nil {
		s.copy = s.copyModule
	}
	if err := s.copy(r, folder); err != nil {
		return "", nil, err
	}
	edit := []string{"mod", "edit", "-go=1.26.0"}
	for module, at := range map[string]string{mainModule: root, mainModule + "/bench/suites": filepath.Join(root, "bench/suites")} {
		edit = append(edit, "-require="+module+"@v0.0.0", "-replace="+module+"="+at)
	}
	if _, err := r.goIn(folder, edit...); err != nil {
		return "", nil, err
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); path != folder && (err == nil || d.Name() == "testdata" || d.Name() == "vendor") {
			return fs.SkipDir
		}
		in, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		wanted := func(f string) bool { return in == f || strings.HasPrefix(in, f+"/") }
		if len(s.folders) > 0 && !slices.ContainsFunc(s.folders, wanted) {
			return nil
		}
		found, err := hook(path)
		if found {
			packages = append(packages, "./"+in)
		}
		return err
	})
	if err == nil && len(packages) == 0 {
		err = errors.New("no tests start a server by net/http/httptest")
	}
	if err == nil {
		_, err = r.goIn(folder, "mod", "tidy", "-e")
	}
	return folder, packages, err
}

// copyModule is what most suites come from.
func (s suite) copyModule(r *run, folder string) error {
	out, err := r.goIn(r.scratch, "mod", "download", "-json", s.module+"@"+s.version)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return err
	}
	return os.CopyFS(folder, os.DirFS(downloaded.Dir))
}

var (
	startsServer  = regexp.MustCompile(`httptest\.New(Unstarted|TLS|)Server\(`)
	packageClause = regexp.MustCompile(`(?m)^package (\w+)`)
)

// hook adds a file that imports bench/suites to the tests in the folder, if they start servers.
func hook(folder string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return false, err
	}
	starts, name := false, ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		starts = starts || startsServer.Match(text)
		if clause := packageClause.FindSubmatch(text); clause != nil {
			name = strings.TrimSuffix(string(clause[1]), "_test")
		}
	}
	if !starts {
		return false, nil
	}
	text := fmt.Sprintf("package %s_test\n\nimport _ %q\n", name, mainModule+"/bench/suites")
	return true, os.WriteFile(filepath.Join(folder, "zz_served_elsewhere_test.go"), []byte(text), 0o666)
}

// goIn runs the go command in a folder, and returns what it prints.
func (r *run) goIn(folder string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(r.ctx, "go", args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go %s: %w: %s", args[0], err, lastLine(problem.Bytes()))
	}
	return out, err
}

// servedByKnot is the environment variable that has bench/suites do something, and what it prints then.
const servedByKnot = "SERVED_BY_KNOT"

// testSuite runs the tests of packages and returns how each has ended: pass, fail or skip.
func (r *run) testSuite(folder, overlay string, byKnot bool, packagesAndFlags ...string) (ends map[string]string, served bool, err error) {
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=4m", "-tags=httptest_on_knot", "-overlay=" + overlay}, packagesAndFlags...)
	cmd := exec.CommandContext(r.ctx, "go", args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if byKnot {
		cmd.Env = append(cmd.Env, servedByKnot+"=1")
	}
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, failed := cmd.Output() // as it does if a test fails
	ends = make(map[string]string)
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(line, &event) != nil || event.Test == "" {
			continue
		}
		switch event.Action {
		case "pass", "fail", "skip":
			ends[event.Package+" "+event.Test] = event.Action
		}
	}
	if len(ends) == 0 && failed != nil {
		err = fmt.Errorf("go test: %w: %s", failed, lastLine(problem.Bytes()))
	}
	return ends, bytes.Contains(out, []byte(servedByKnot)), err
}

// againstKnot counts the tests of s that pass with net/http, and how many of them pass on Knot too: at once, or when they are
// run once more by themselves. worse are the tests that fail on Knot only.
func (r *run) againstKnot(s suite, overlay string) (plain, knot int, worse []string, err error) {
	folder, packages, err := r.copySuite(s)
	if err != nil {
		return 0, 0, nil, err
	}
	defer os.RemoveAll(folder)
	if len(s.differs) > 0 {
		packages = append(packages, "-skip=^("+strings.Join(s.differs, "|")+")$")
	}
	packages = append(packages, s.flags...)
	before, _, err := r.testSuite(folder, overlay, false, packages...)
	if err != nil {
		return 0, 0, nil, err
	}
	after, served, err := r.testSuite(folder, overlay, true, packages...)
	if err == nil && !served {
		err = errors.New("no server was Knot's")
	}
	if err != nil {
		return 0, 0, nil, err
	}
	again := make(map[string]map[string]string) // by the package and name of a test, without those in it
	for test, end := range before {
		if end != "pass" {
			continue
		}
		plain++
		if after[test] != "pass" {
			in, name, _ := strings.Cut(test, " ")
			name, _, _ = strings.Cut(name, "/")
			whole := in + " " + name
			if again[whole] == nil {
				again[whole], _, _ = r.testSuite(folder, overlay, true, slices.Concat([]string{"-run=^" + name + "$", in}, s.flags)...)
			}
			end := again[whole][test]
			if end == "" && after[test] == "" && again[whole][whole] == "pass" { // its name was random
				plain--
				continue
			}
			if end != "pass" {
				worse = append(worse, test)
				continue
			}
		}
		knot++
	}
	if err := context.Cause(r.ctx); err != nil {
		return 0, 0, nil, err
	}
	if plain == 0 {
		return 0, 0, nil, errors.New("none of its tests passes here")
	}
	slices.Sort(worse)
	return plain, knot, worse, nil
}

// suitesExperiment runs the tests of other projects, as they are and with their servers on Knot.
var suitesExperiment = experiment{
	name:  suitesName,
	doc:   "tests of other projects for net/http, as they are and with their servers on Knot",
	after: (*run).trySuites,
}

func (r *run) trySuites() error {
	chosen, err := r.pickSuites()
	if err != nil {
		return err
	}
	var overlay string
	if err := r.prepare(time.Second, func() (err error) { overlay, err = r.overlayHTTPTest(); return err }); err != nil {
		return err
	}
	worse := 0
	for _, s := range chosen {
		err := r.prepare(choose(r.quick, 20*time.Second, 40*time.Second), func() error {
			plain, knot, failing, err := r.againstKnot(s, overlay)
			if err != nil {
				return err
			}
			fmt.Fprintf(r.progress, "%s: %d of %d\n", s.name, knot, plain)
			for _, test := range failing {
				fmt.Fprintf(r.progress, "  fails on Knot: %s\n", test)
			}
			worse += len(failing)
			return errors.Join(r.add("knot", []sample{{metric: s.name, unit: "tests", value: float64(knot)}}),
				r.add("net-http", []sample{{metric: s.name, unit: "tests", value: float64(plain)}}))
		})
		if err != nil {
			if context.Cause(r.ctx) != nil {
				return err
			}
			r.skip(s.name, err)
		}
	}
	if worse > 0 {
		r.failed = errors.Join(r.failed, fmt.Errorf("%d tests pass on net/http and fail on Knot", worse))
	}
	without := 0
	for _, s := range chosen {
		without += len(s.differs)
	}
	r.note("tests of other projects that start servers by net/http/httptest: those that pass as they are, and of these those that pass with these servers on Knot; without %d that rely on what is different on purpose, see bench/suites.go", without)
	return nil
}

// pickSuites are those of -rows, or all that are not large; of a quick run the first only.
func (r *run) pickSuites() (chosen []suite, err error) {
	names := make([]string, 0, len(suites))
	for _, s := range suites {
		names = append(names, s.name)
		if slices.Contains(r.rows, s.name) || len(r.rows) == 0 && !s.large && (!r.quick || len(chosen) == 0) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range r.rows {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}
