//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof" // of lookupProgram
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// lookupProgram is a plain Go program with net/http/pprof on an address that it prints. Its goroutines look something up; with the
// argument "slow" they hold a lock meanwhile.
func lookupProgram() {
	for range 8 {
		go func() {
			for {
				lookup(os.Args[1] == "slow")
			}
		}()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(ln, nil)
	fmt.Printf("ready\nhttp://%s\n", ln.Addr())
	io.Copy(io.Discard, os.Stdin)
}

var lookupLock sync.Mutex

//go:noinline
func lookup(slow bool) {
	lookupLock.Lock()
	if slow {
		time.Sleep(5 * time.Millisecond)
	}
	lookupLock.Unlock()
	time.Sleep(5 * time.Millisecond)
}

// Of five processes one waits for a lock most of the time. That is said first, whether they are asked at once, or recorded and
// looked at later, in text or on the page.
func TestTheProcessThatDiffersIsNamed(t *testing.T) {
	var list strings.Builder
	for i := range 5 {
		kind := "quick"
		if i == 3 {
			kind = "slow"
		}
		_, out, _ := start(t, "lookup", kind)
		line := testenv.Need(out.ReadString('\n'))(t)
		fmt.Fprintf(&list, "- targets: ['%s']\n  labels: {pod: pod-%d}\n", strings.TrimSpace(line), i)
	}
	recorded := writeFile(t, "recorded.yml", list.String())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	fmt.Fprintf(&list, "- targets: ['%s']\n  labels: {pod: pod-silent}\n", silent.URL)
	differs := regexp.MustCompile(`pod-3 differs: [4-9][0-9](\.[0-9])?% of its time in mutex \S*lookup\S*( \(fleetreal_test.go:[0-9]+\))?, others <?[0-9](\.[0-9]+)?%\n`)
	says := func(r result) {
		t.Helper()
		testenv.Equal(t, r.code, exitOK, r.errOut)
		testenv.True(t, differs.MatchString(r.out), "got\n%.3000s", r.out)
	}

	r := commandIn(t, context.Background(), realSurroundings(), "-seconds", "1", "-timeout", "6s", "-cpu=false", "-targets", writeFile(t, "targets.yml", list.String()))
	says(r)
	testenv.Contains(t, r.out, "SOURCES: 6, 1 without a graph, ")
	testenv.Contains(t, r.errOut, "pod-silent: no answer within 6s")

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan result, 1)
	go func() { done <- commandIn(t, ctx, realSurroundings(), "-record", dir, "-targets", recorded) }()
	testenv.Until(t, "all processes are recorded", func() bool {
		names, err := foldersOfFleet(dir)
		return err == nil && len(names) == 5
	})
	cancel()
	testenv.Equal(t, (<-done).code, exitOK)
	says(command(t, dir))
	page := servedFleet(t, &surroundings{clock: newFakeClock()}, dir)("/", 200)
	testenv.True(t, regexp.MustCompile(`>pod-3</a>.*[4-9][0-9](\.[0-9])?% of its time in mutex \S*lookup`).MatchString(page), "the page has\n%s", page)
}
