package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/trace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A trace comes from a file, the standard input, or net/http/pprof, and is shown in all forms.
func TestTraces(t *testing.T) {
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip(err)
	}
	c := make(chan int)
	for i := range 200 {
		go func() { c <- i }()
		<-c
	}
	trace.Stop()
	path := filepath.Join(t.TempDir(), "trace.out")
	testenv.Must(t, os.WriteFile(path, b.Bytes(), 0o600))
	const golden127 = "../../internal/gotrace/testdata/go1.27.trace"
	for args, want := range map[string]string{
		path:                        "an execution trace of",
		"-svg " + path:              "<svg",
		"-svg -prune 0 " + path:     "<svg",
		"-dot " + path:              "digraph",
		"-json " + path:             `"kind": "goroutines"`,
		"-md " + path:               "| node |",
		"-dump " + path:             "capriccio blocking graph 1",
		"-folded " + path:           "start",
		"-raw " + path:              "goroutine",
		"-limit 2 -stacks " + path:  "GOROUTINES",
		path + " " + path + "x":     "",
		"-tasks " + path:            "No task of package runtime/trace ended",
		"-regions " + path:          "No region of package",
		"-tasks " + goldenTrace:     "order",
		"-requests " + goldenTrace:  "A REQUEST OF main.handle on average",
		"-slowest 1 " + goldenTrace: "main.handle, a request: 9.18ms",
		"-slowest 1 " + path:        "no request of net/http and no task of package runtime/trace",
		"-merge -slowest 1 " + goldenTrace + " " + golden127: "main.handle, a request",
		"-merge -tasks " + goldenTrace + " " + golden127:     " 48 ",
		goldenTrace + " " + golden127 + " " + path:           "several, an execution trace",
		"-merge -dump " + goldenTrace + " " + golden127:      "capriccio blocking graph 1",
		"-": "standard input, an execution trace",
	} {
		if strings.HasSuffix(args, "x") {
			testenv.Must(t, os.WriteFile(path+"x", b.Bytes(), 0o600))
			want = "NODES. goroutines:"
		}
		r := commandIn(t, t.Context(), &surroundings{stdin: bytes.NewReader(b.Bytes()), clock: systemClock{}, kernel: systemKernel()}, strings.Fields(args)...)
		if r.code != exitOK || !strings.Contains(r.out, want) {
			t.Errorf("%s: %d, %s, want %q in\n%.400s", args, r.code, r.errOut, want, r.out)
		}
	}
}

func waitsLong(over chan bool) { <-over }

func TestTracesOfAURL(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	var listed atomic.Int32
	mux.HandleFunc("/debug/pprof/goroutine", func(w http.ResponseWriter, _ *http.Request) {
		if listed.Add(1) == 1 {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		f := runtime.FuncForPC(reflect.ValueOf(waitsLong).Pointer())
		file, line := f.FileLine(f.Entry())
		fmt.Fprintf(w, "goroutine 7 [chan receive, 99 minutes]:\n%s(0x1)\n\t%s:%d +0x1\n", f.Name(), file, line)
	})
	over := make(chan bool)
	go waitsLong(over)
	defer close(over)
	server := serving(t, mux)
	for _, args := range []string{server, server + "/debug/pprof", "-cpu " + server + "/debug/pprof/trace"} {
		r := commandIn(t, t.Context(), &surroundings{clock: systemClock{}, kernel: systemKernel()}, append([]string{"-seconds", "1", "-timeout", "1m"}, strings.Fields(args)...)...)
		if r.code != exitOK || !strings.Contains(r.out, filepath.Base(os.Args[0])+", an execution trace of") {
			t.Errorf("%s: %d, %s\n%.300s", args, r.code, r.errOut, r.out)
		}
		testenv.Equal(t, strings.Contains(r.out, "not known: the answer at /debug/pprof/goroutine is 403 Forbidden"), listed.Load() == 1, "%s: a note is there", args)
		testenv.Equal(t, strings.Contains(r.out, "1h39m"), listed.Load() > 1, "%s: an age of 99 min is there", args)
		testenv.Contains(t, r.errOut, "for 1 s; meanwhile that costs it", "%s: the price is not named", args)
	}
}

// An error about what cannot be opened or read tells what to do about it.
func TestWhatIsWrongWithASource(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	whole := testenv.Need(os.ReadFile(goldenTrace))(t)
	folder := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		testenv.Must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	zip := func(content []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(content)
		testenv.Must(t, z.Close())
		return b.Bytes()
	}
	zipped := zip(whole)
	for _, c := range []struct {
		source, want string
		code         int
	}{
		{file("a.gz", zipped), "an execution trace of", 0},
		{file("b.gz", zipped[:len(zipped)-100]), "cannot be read up to its first event", 2},
		{file("c.gz", zip([]byte("\n\x04profile of something"))), "go tool pprof", 2},
		{file("d.gz", zipped[:5]), "it cannot be decompressed", 2},
		{file("new", append([]byte("go 1.99 trace\x00\x00\x00"), whole[16:]...)), "a newer release", 2},
		{file("cut", whole[:300]), "cannot be read up to its first event", 2},
		{file("text", []byte("hello\n")), "nor is it an execution trace", 2},
		{file("empty", nil), "it is empty", 2},
	} {
		r := commandIn(t, t.Context(), &surroundings{clock: systemClock{}, kernel: systemKernel()}, "-timeout", "5m", c.source)
		if r.code != c.code || !strings.Contains(r.out+r.errOut, c.want) {
			t.Errorf("%s: %d, want %d and %q in\n%.300s%s", c.source, r.code, c.code, c.want, r.out, r.errOut)
		}
	}
	u := testenv.Need(url.Parse("http://192.0.2.1:6060"))(t)
	proxy := testenv.Need(url.Parse(closed.URL))(t)
	source := newURLSource(u, &surroundings{clock: systemClock{}, stderr: io.Discard}, &settings{timeout: 5 * time.Minute})
	source.transport.Proxy = http.ProxyURL(proxy)
	testenv.ErrorSays(t, testenv.Err(source.Snapshot(context.Background())), "the proxy "+closed.URL+" does not answer")
}
