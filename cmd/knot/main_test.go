package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

const sampleSite = "../../knot/testdata/site"

func TestServesTheSampleSite(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	p := start(t, "-root", sampleSite, "-log", log, "-log-format", "common")
	abs, _ := filepath.Abs(sampleSite)
	testenv.Equal(t, p.printed[0], "serving "+abs+" on "+p.url+"\n", "the first line")
	for path, want := range map[string]string{"/": "It works", "/guide": "A short guide", "/style.css": "--rope", "/knot.svg": "<svg", "/notes.txt": "Bowline"} {
		resp, body := testenv.Get(t, http.DefaultClient, p.url+path)
		testenv.Equal(t, resp.StatusCode, 200, path)
		testenv.Contains(t, body, want, path)
	}
	p.end()
	testenv.Until(t, "the last line", func() bool { return p.rest.String() == "stop with Ctrl-C\nstopped\n" })
	lines, err := os.ReadFile(log)
	if n := bytes.Count(lines, []byte("\n")); err != nil || n != 6 {
		t.Errorf("access log has %d lines, want 6: %s", n, lines)
	}
}

// TestSiteLinks: every link of the sample sampleSite leads somewhere.
func TestSiteLinks(t *testing.T) {
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	pages, _ := filepath.Glob(sampleSite + "/*.html")
	more, _ := filepath.Glob(sampleSite + "/*/*.html")
	pages = append(pages, more...)
	if len(pages) < 3 {
		t.Fatalf("pages: %q", pages)
	}
	for _, page := range pages {
		text := testenv.Need(os.ReadFile(page))(t)
		for _, match := range link.FindAllSubmatch(text, -1) {
			testenv.Check(t, testenv.Err(os.Stat(filepath.Join(filepath.Dir(page), string(match[1])))), page)
		}
	}
}

func TestErrorsAreClear(t *testing.T) {
	used := testenv.Listen(t).Addr().String()
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "say which folder to serve: knot FOLDER"},
		{[]string{"public"}, exitFailed, "there is no folder public (-root)"},
		{[]string{"a", "b"}, exitUsage, "2 folders; want one"},
		{[]string{"-config", os.DevNull, "more"}, exitUsage, `unexpected argument "more"; folders are in ` + os.DevNull},
		{[]string{"-root", sampleSite, "more"}, exitUsage, `unexpected argument "more"`},
		{[]string{"-rot", sampleSite}, exitUsage, "there is no flag -rot; did you mean -root?"},
		{[]string{"-root", sampleSite, "--max_conns=5"}, exitUsage, "there is no flag -max_conns; did you mean -max-conns?"},
		{[]string{"-nothing-like-it"}, exitUsage, "there is no flag -nothing-like-it\n"},
		{[]string{"-root", sampleSite, "-loops", "-1"}, exitUsage, "-loops -1; want 1 to 1024"},
		{[]string{"-root", sampleSite, "-loops", "2000"}, exitUsage, "-loops 2000; want 1 to 1024, or 0 for one per processor core"},
		{[]string{"-x"}, exitUsage, "there is no flag -x\n"},
		{[]string{"-root", sampleSite, "-cache", "much"}, exitUsage, "want a size like 500KB, 64MB or 2GB"},
		{[]string{"-root", sampleSite, "-cache", "1MB", "-cache-file-max", "2MB"}, exitUsage, "-cache-file-max 2MB is more than -cache 1MB"},
		{[]string{"-root", sampleSite, "-revalidate", "-1s"}, exitUsage, "-revalidate -1s is negative"},
		{[]string{"-root", sampleSite, "-open-files", "-2"}, exitUsage, "-open-files -2 is negative"},
		{[]string{"-root", sampleSite, "-log-format", "xml"}, exitUsage, `-log-format "xml"; want combined, common or json`},
		{[]string{"-root", sampleSite, "-server-name", "a\nb"}, exitUsage, "-server-name"},
		{[]string{"-root", sampleSite + "/none"}, exitFailed, "there is no folder " + sampleSite + "/none (-root)"},
		{[]string{"-root", sampleSite + "/notes.txt"}, exitFailed, sampleSite + "/notes.txt is not a folder (-root)"},
		{[]string{"-root", sampleSite, "-addr", used}, exitFailed, "Another program uses " + used + " already."},
		{[]string{"-root", sampleSite, "-addr", "nonsense"}, exitFailed, "nonsense"},
		{[]string{"-root", sampleSite, "-addr", "8080"}, exitFailed, "Did you mean -addr :8080?"},
		{[]string{"-root", sampleSite, "-admin", "9090"}, exitFailed, "Did you mean -admin :9090?"},
		{[]string{"-root", sampleSite, "-addr", "localhost"}, exitFailed, "Did you mean -addr localhost:8080?"},
		{[]string{"-root", sampleSite, "-addr", "::1"}, exitFailed, "Did you mean -addr [::1]:8080?"},
		{[]string{"-root", sampleSite, "-addr", "[::1]"}, exitFailed, "Did you mean -addr [::1]:8080?"},
		{[]string{"-root", sampleSite, "-addr", "/run/knot.sock"}, exitFailed, "-addr wants host:port, or unix:/path."},
		{[]string{"-root", sampleSite, "-addr", "unix:"}, exitUsage, "-addr unix: names no socket; want unix:/path"},
		{[]string{"-root", sampleSite, "-addr", "unix:/nowhere/at/all/knot.sock"}, exitFailed, "bind: no such file or directory"},
		{[]string{"-root", sampleSite, "-admin", "/run/knot.sock"}, exitFailed, "-admin wants host:port."},
		{[]string{"-root", sampleSite, "-max-head", "10"}, exitUsage, "-max-head 10 is too small for the requests of browsers; want at least 256"},
		{[]string{"-root", sampleSite, "-max-conns", "-2"}, exitUsage, "-max-conns -2; want a number of connections, 0 for the default, or -1 for no limit"},
		{[]string{"-root", sampleSite, "-grace", "-1s"}, exitUsage, "-grace -1s is negative"},
		{[]string{"-root", sampleSite, "-poller", "kqueue"}, exitUsage, "kqueue"},
		{[]string{"-root", sampleSite, "-log", sampleSite + "/none/x.log"}, exitFailed, "none/x.log"},
	} {
		fails(t, test.code, test.want, test.args...)
	}
}

// TestFoldersThatCouldNotBeWritten: that is told at the start, and not to the one who sends the signal, nor to the first client
// that needs a certificate.
func TestFoldersThatCouldNotBeWritten(t *testing.T) {
	for path, want := range map[string]string{
		"/nonexist/x":               "knot: -dump: stat /nonexist: no such file or directory",
		"/nonexist/":                "knot: -dump: stat /nonexist: no such file or directory",
		sampleSite + "/notes.txt/x": "/notes.txt: not a directory",
	} {
		fails(t, exitFailed, want, "-root", sampleSite, "-addr", "127.0.0.1:0", "-dump", path)
	}
	fails(t, exitFailed, "knot: -acme-cache: mkdir "+sampleSite+"/notes.txt: not a directory",
		"-root", sampleSite, "-addr", "127.0.0.1:0", "-acme", "a.test", "-acme-cache", sampleSite+"/notes.txt/x")
}

func TestTooFewDescriptorsAreExplained(t *testing.T) {
	set := &settings{server: &knot.Server{Addr: ":80"}}
	err := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	if got := explain(err, set); !strings.HasPrefix(got, "listen tcp: socket: too many open files\n") || !strings.Contains(got, "ulimit -n") {
		t.Errorf("got %q", got)
	}
}

func TestHelp(t *testing.T) {
	help := func(args ...string) []byte {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), args, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%q: code %d, %q", args, code, &stderr)
		}
		return stdout.Bytes()
	}
	testenv.Golden(t, "help.txt", help("-help", "all"))
	testenv.Equal(t, string(help("help", "all")), string(help("--help", "all")))
	short := string(help("help"))
	testenv.Equal(t, string(help("-h")), short)
	testenv.AtMost(t, strings.Count(short, "\n"), 24, "lines of the short help")
	for line := range strings.Lines(short) {
		testenv.AtMost(t, len(line), 81, "columns: %s", line)
	}
	for _, word := range regexp.MustCompile(`(?m)(?:^|\s)-([a-z-]{2,})`).FindAllStringSubmatch(short, -1) {
		if !bytes.Contains(help("help", "all"), []byte("\n  -"+word[1])) {
			t.Errorf("there is no flag -%s", word[1])
		}
	}
}

func TestAddressesToClickOn(t *testing.T) {
	for want, addr := range map[string]net.Addr{
		"https://[::1]:443": &net.TCPAddr{IP: net.IPv6loopback, Port: 443},
		"https://localhost:443 (every address of this machine, port 443)": &net.TCPAddr{IP: net.IPv4zero, Port: 443},
		"unix:/run/knot.sock": &net.UnixAddr{Name: "/run/knot.sock", Net: "unix"},
	} {
		testenv.Equal(t, address("https", addr), want)
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "7B": 7, "500KB": 500 << 10, "500kb": 500 << 10, "64M": 64 << 20, "64 MB": 64 << 20,
		"1GiB": 1 << 30, "3g": 3 << 30, "12 b": 12,
		"": -1, "MB": -1, "-1": -1, "-1MB": -1, "1.5MB": -1, "64XB": -1, "1KBB": -1, "5BB": -1, "1MKB": -1, "99999999999GB": -1, "1TB": -1,
	} {
		b := byteSize(-1)
		if err := b.Set(text); (err != nil) != (want < 0) || int64(b) != want {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	for b, want := range map[byteSize]string{0: "0", 1: "1B", 1 << 10: "1KB", 1000: "1000B", 64 << 20: "64MB", 5 << 30: "5GB", 3 << 9: "1536B"} {
		testenv.Equal(t, b.String(), want, "%d prints as", int64(b))
	}
}

// TestCacheIsAThirdOfTheLimit reads the limits that the kernel would show.
func TestCacheIsAThirdOfTheLimit(t *testing.T) {
	machine := map[string]string{"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"}
	version1 := map[string]string{
		"proc/self/cgroup":                               "4:memory:/app\n",
		"proc/self/mountinfo":                            "35 31 0:32 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "209715200\n",
		"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "1000\n",
	}
	version2 := map[string]string{
		"proc/self/cgroup":                 "0::/pod/app\n",
		"proc/self/mountinfo":              "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/pod/app/memory.max": "max\n", "sys/fs/cgroup/pod/app/memory.current": "1000\n",
		"sys/fs/cgroup/pod/memory.max": "536870912\n", "sys/fs/cgroup/pod/memory.current": "1000\n",
	}
	for _, c := range []struct {
		name  string
		files []map[string]string
		limit float64 // GOMEMLIMIT
		want  int64
	}{
		{"a machine of 16 GB", []map[string]string{machine}, math.MaxInt64, 1 << 30},
		{"200 MB, version 1", []map[string]string{machine, version1}, math.MaxInt64, 66 << 20},
		{"512 MB, version 2", []map[string]string{machine, version2}, math.MaxInt64, 170 << 20},
		{"GOMEMLIMIT=100MiB", []map[string]string{machine, version2}, 100 << 20, 33 << 20},
		{"GOMEMLIMIT=1MiB", []map[string]string{machine, version2}, 1 << 20, 1 << 20},
		{"no limit is known", nil, math.MaxInt64, knot.DefaultCacheBytes},
	} {
		root := t.TempDir()
		for _, files := range c.files {
			for name, text := range files {
				path := filepath.Join(root, name)
				testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
			}
		}
		limit := probe.MemoryLimit(probe.Config{Root: root, Runtime: func() probe.Runtime { return probe.Runtime{MemoryLimit: c.limit} }})
		if got := cacheOf(limit); got != c.want {
			t.Errorf("%s: cache of %s, want %s", c.name, byteSize(got), byteSize(c.want))
		}
	}
}

func TestCacheFlag(t *testing.T) {
	for arg, want := range map[string]int64{"": cacheOf(probe.MemoryLimit(probe.Config{})), "-cache=3MB": 3 << 20, "-cache=0": -1} {
		args := []string{"-root", sampleSite}
		if arg != "" {
			args = append(args, arg)
		}
		set, err := parse(args, io.Discard)
		if err != nil || set.files.CacheBytes != want {
			t.Errorf("%q: %v, %v; want %d", arg, set, err, want)
		}
	}
}

// TestExpiryIsTold while knot runs, once a day, and at once when a certificate is over.
func TestExpiryIsTold(t *testing.T) {
	var log testenv.Buffer
	var mu sync.Mutex
	end := time.Date(2030, 4, 1, 12, 0, 0, 0, time.UTC) // guarded by mu
	e := &expiryLog{log: slog.New(slog.NewTextHandler(&log, nil)), expires: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return end
	}}
	first, day := end, 24*time.Hour
	e.look(first.Add(-20*day), true) // at the start
	ctx, stop := context.WithCancel(t.Context())
	ticks := make(chan time.Time)
	var watch sync.WaitGroup
	watch.Go(func() { e.watch(ctx, ticks) })
	for at := first.Add(-20 * day); at.Before(first.Add(2 * day)); at = at.Add(time.Hour) {
		ticks <- at
	}
	mu.Lock()
	end = first.Add(80 * day)
	mu.Unlock()
	ticks <- first.Add(2 * day)
	stop()
	watch.Wait()
	got := log.String()
	if warned, expired := strings.Count(got, "expires soon"), strings.Count(got, "has expired"); warned != 14 || expired != 2 {
		t.Errorf("warned %d times, and %d times that it was too late: %s", warned, expired, got)
	}
	e.look(first.Add(70*day), true)
	e.look(first.Add(70*day), true) // others, as bad
	if more := strings.Count(log.String(), "expires soon") - strings.Count(got, "expires soon"); more != 2 {
		t.Errorf("%d warnings of new certificates", more)
	}
}
