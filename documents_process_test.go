//go:build linux

package capriccio_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// notRunHere are commands of the documents that TestCommandsOfDocumentsRun leaves out, with the reason.
var notRunHere = []struct{ pattern, reason string }{
	{`-record .*k8s:|bgdump recordings|:8000 recordings`, "needs a fleet that is recorded; cmd/bgdump records a scripted one"},
	{`-otlp |localhost:9100/`, "needs a build with the tag otlp; the tests with that tag have a collector"},
	{`k8s:|dns://|^kubectl|deploy/knot|127\.0\.0\.1:9090/debug`, "needs Kubernetes or its DNS; cmd/bgdump and cmd/knot are tested with a scripted API server"},
	{`-acme `, "needs a public name; cmd/knot/acmetest asks Pebble"},
	{`^go (test|build|install|get)\b|^bash \.ci|go run \./bench |@latest|examples/fleet`, "takes minutes, or is a step of .ci/run or .ci/full"},
	{`stackplan (report|build|test|static)`, "takes minutes; cmd/stackplan has tests of each"},
	{`example\.org|shop\.internal|//10\.0\.0\.2/|-X DELETE|PID$`, "asks a server that the page describes; cmd/knot has a test of each"},
}

// manual is a folder, and servers, in which the commands of documents have what they name.
type manual struct {
	t     *testing.T
	dir   string
	names *strings.Replacer // what a command says, and what there is in its place
	ends  []func()          // of the servers that commands of this page have started
}

// newManual makes the files that commands name.
func newManual(t *testing.T) *manual {
	m := &manual{t: t, dir: t.TempDir()}
	testenv.Run(t, "", nil, "go", "build", "-o", m.dir+"/bin/", "./cmd/bgdump", "./cmd/knot")
	profiled, second := httptest.NewServer(http.DefaultServeMux), httptest.NewServer(http.DefaultServeMux)
	t.Cleanup(profiled.Close)
	t.Cleanup(second.Close)
	addr := strings.TrimPrefix(profiled.URL, "http://")
	discovery := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"targets": [%q]}]`, addr)
	}))
	t.Cleanup(discovery.Close)
	for name, text := range map[string]string{
		"server/server_test.go": `package server

import "testing"

func TestLoad(t *testing.T) {
	turns := make(chan bool)
	go func() {
		for range 1000 {
			turns <- true
		}
		close(turns)
	}()
	for range turns {
	}
}

func BenchmarkLookup(b *testing.B) {
	for b.Loop() {
		TestLoad(nil)
	}
}
`,
		"go.mod":            "module example.com/shop\n\ngo 1.26\n",
		"fleet.yml":         "- targets: ['" + addr + "']\n",
		"public/index.html": "<p>the page</p>",
		"knot.toml":         "addr = '127.0.0.1:0'\nroot = 'public'\n",
		"nginx.conf":        "http { server { listen 127.0.0.1:0; root " + m.dir + "/public; } }\n",
	} {
		m.write(name, text)
	}
	testenv.NewCA(t).Files(t, m.dir, "localhost", "127.0.0.1")
	testenv.Must(t, os.Rename(m.path("localhost.crt"), m.path("site.crt")))
	testenv.Must(t, os.Rename(m.path("localhost.key"), m.path("site.key")))
	testenv.Run(t, m.dir, nil, "go", "test", "-count", "1", "-trace", "trace.out", "./server")
	trace := read(t, m.path("trace.out"))
	for _, name := range []string{"a", "b", "c", "a1", "a2", "a3", "b1", "b2", "b3", "before", "after", "before/1", "after/1", "baseline/1", "captures/old/1", "captures/new/1"} {
		m.write(name+".out", trace)
	}
	server, echo := start(t, "echo")
	stop, answers := make(chan struct{}), atomic.Int64{}
	go load(t, echo, stop, &answers)
	testenv.Until(t, "the program answers", func() bool { return answers.Load() > 1000 })
	close(stop)
	places := []string{
		"go run ./cmd/", "", ".../debug/pprof/trace?seconds=5", profiled.URL + "/debug/pprof/trace?seconds=1", "localhost:6060", addr,
		"10.0.0.1:6060", addr, "10.0.0.2:6060", strings.TrimPrefix(second.URL, "http://"), "discovery:8080", strings.TrimPrefix(discovery.URL, "http://"), "4711", fmt.Sprint(server.cmd.Process.Pid),
		"/etc/knot.toml", "knot.toml", "/etc/nginx/nginx.conf", "nginx.conf", "http://localhost:4318", discovery.URL,
	}
	for _, port := range []string{":8000", ":9120", ":443", ":8443", ":8080"} {
		ln := testenv.Listen(t)
		_, free, _ := strings.Cut(ln.Addr().String(), ":")
		places = append(places, "localhost"+port, "localhost:"+free, " "+port, " 127.0.0.1:"+free)
		ln.Close() // a command listens there
	}
	m.names = strings.NewReplacer(places...)
	return m
}

func (m *manual) path(name string) string { return filepath.Join(m.dir, name) }

func (m *manual) write(name, text string) {
	testenv.Must(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o700))
	testenv.Must(m.t, os.WriteFile(m.path(name), []byte(text), 0o600))
}

// isJudged matches commands whose exit status is 1 if something looks wrong.
var isJudged = regexp.MustCompile(`^bgdump (test |.*-lint |-md .*/ )`)

// serves are commands that run until they are interrupted.
var serves = regexp.MustCompile(`^bgdump .*-(http|serve) |^knot (\./public|-config)`)

// run runs a command as the page has it. A server goes on, for the commands behind it, until the end of the page.
func (m *manual) run(t *testing.T, line string) {
	command := m.names.Replace(line)
	if regexp.MustCompile(`^bgdump (http:|-targets|-merge|-slowest)`).MatchString(command) && !strings.Contains(command, "-seconds") {
		command = strings.Replace(command, "bgdump ", "bgdump -seconds 1 ", 1)
	}
	var out testenv.Buffer
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "GOWORK=off", "PATH="+m.path("bin")+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &out, &out
	if serves.MatchString(command) {
		cmd.Args = []string{"sh", "-c", "exec " + command}
		testenv.Must(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		testenv.Until(t, command+" ends or listens", func() bool {
			return len(ended) > 0 || len(listening(cmd.Process.Pid)) > 0
		})
		m.ends = append(m.ends, func() {
			cmd.Process.Signal(syscall.SIGINT)
			testenv.Check(t, <-ended, "%s, until an interrupt: %s", command, &out)
		})
		return
	}
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 0 && !(code == 1 && isJudged.MatchString(command)) {
		t.Errorf("%s: %v\n%s", command, err, out.String())
	}
}

// listening are the sockets on which a process listens for TCP.
func listening(pid int) (all []string) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	table, _ := os.ReadFile("/proc/net/tcp")
	for _, link := range links {
		target, _ := os.Readlink(link)
		inode, is := strings.CutPrefix(target, "socket:[")
		for line := range bytes.Lines(table) {
			if f := strings.Fields(string(line)); is && len(f) > 9 && f[3] == "0A" && f[9]+"]" == inode {
				all = append(all, f[1])
			}
		}
	}
	return all
}

// TestCommandsOfDocumentsRun: the commands of the pages do not fail, with files, servers and programs in place of those that the pages name.
func TestCommandsOfDocumentsRun(t *testing.T) {
	testenv.NeedsFull(t, "it takes a minute, most of which bgdump traces")
	m := newManual(t)
	ran := 0
	for _, file := range glob(t, "docs/*.md") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, line := range commandsOf(read(t, file)) {
				if reason := reasonNotToRun(line); reason == "" {
					ran++
					m.run(t, line)
				} else {
					t.Logf("not run, as it %s: %s", reason, line)
				}
			}
			for _, end := range m.ends {
				end()
			}
			m.ends = nil
		})
	}
	testenv.AtLeast(t, ran, 35, "commands that ran")
}

// commandsOf are the commands in the blocks of a page that have no language.
func commandsOf(text string) (all []string) {
	fence := "" // of the block in which the line is
	for line := range strings.SplitSeq(continued.ReplaceAllString(text, ""), "\n") {
		if strings.HasPrefix(line, "```") {
			if fence == "" {
				fence = line
			} else {
				fence = ""
			}
			continue
		}
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "$ "), "   ") // what the command does stands to the right
		if fence == "```" && isCommand.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// continued is the end of a line that goes on in the next.
var continued = regexp.MustCompile(`\\\n *`)

// isCommand matches a line that calls a program; a line that a program has printed begins with its name and a colon.
var isCommand = regexp.MustCompile(`^(go|bash|bgdump|knot|stackplan|curl|kill|kubectl|openssl) `)

func reasonNotToRun(line string) string {
	for _, n := range notRunHere {
		if regexp.MustCompile(n.pattern).MatchString(line) {
			return n.reason
		}
	}
	return ""
}
