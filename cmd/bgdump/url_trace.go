package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/gotrace"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// trace takes an execution trace. Whether that can be had is asked first, as what it costs is said
// before it is taken.
func (u *urlSource) trace(ctx context.Context, profiles *url.URL) (*bgraph.Snapshot, error) {
	if u.last != nil && u.clock.Now().Before(u.next) {
		return u.last.Clone(), nil
	}
	seconds := strconv.Itoa(int(u.tracing.Seconds()))
	if !u.traces {
		if err := u.findTraces(ctx, profiles); err != nil {
			return nil, err
		}
		u.traces = true
		fmt.Fprintf(u.stderr, "bgdump: taking an execution trace of %s for %s s; meanwhile that costs it 1 to 17 %% of its throughput, and more if it does little but pass values over channels\n",
			u.Name(), seconds)
	}
	within, began := u.timeout+2*u.tracing, u.clock.Now()
	profiled := make(chan cpuProfile, 1)
	if u.cpu { // its samples come with the trace
		ctx, cancel := withTimeout(ctx, u.clock, within)
		defer cancel()
		go func() { profiled <- u.profile(ctx, withQuery(profiles.JoinPath("profile"), "seconds", seconds)) }()
	} else {
		close(profiled)
	}
	used := u.processCPU()
	s, err := u.get(ctx, withQuery(profiles.JoinPath("trace"), "seconds", seconds), within)
	if err != nil {
		return nil, err
	}
	used = u.processCPU() - used
	took := u.clock.Now().Sub(began)
	note := func(what string, err error) {
		if err != nil && len(s.Notes) < graphlimits.Notes {
			s.Notes = append(s.Notes, what+graphlimits.Name.Clean(explain(err)))
		}
	}
	if s.Taken.IsZero() { // traces of Go 1.24 and older have no clock
		s.Taken = u.clock.Now()
		s.Program.Started = s.Taken.Add(-s.Span.Duration())
	}
	profile := <-profiled
	note("there is no CPU profile: ", profile.err)
	profile.explain(s)
	if used > 0 && took > 0 { // the kernel counts all, a profile what it meets
		s.ProcessCPU = min(bgraph.Nanos(float64(used)*float64(s.Span)/float64(took)), graphlimits.Number)
	}
	if u.pause == 0 {
		note("how long goroutines have waited before the trace is not known: ", u.ages(ctx, profiles, s))
	} else {
		u.last, u.next = s.Clone(), began.Add(u.pause)
	}
	return s, nil
}

// processCPU is what the process has used so far, as the kernel counts it; 0: not known.
func (u *urlSource) processCPU() time.Duration {
	if u.pid == 0 {
		return 0
	}
	used, _ := u.kernel.cpu(u.pid)
	return used
}

// findTraces asks for a trace of a millisecond: only that tells if there are any.
func (u *urlSource) findTraces(ctx context.Context, profiles *url.URL) error {
	ctx, cancel := withTimeout(ctx, u.clock, u.timeout)
	defer cancel()
	at := profiles.JoinPath("trace")
	resp, err := u.ask(ctx, withQuery(at, "seconds", "0.001"))
	var bad badAnswer
	switch {
	case errors.As(err, &bad) && bad.missing:
	case err != nil:
		return err
	default:
		head := make([]byte, headLength)
		n, _ := io.ReadFull(resp.Body, head)
		resp.Body.Close()
		switch {
		case gotrace.IsTrace(head[:n]):
		case mediaType(resp) == "text/html":
			bad = webPage(resp)
		default:
			return badAnswer{false, fmt.Errorf("the answer at %s is no execution trace", printable(at.Path))}
		}
	}
	command, profiled := u.commandLine(ctx, profiles)
	switch {
	case bad.error == nil:
		if command != "" {
			u.o.Name = command[strings.LastIndexAny(command, "/\\")+1:]
		}
		return nil
	case profiled:
		bad.missing = false
		bad.error = fmt.Errorf("it serves profiles but no execution trace (%w): where the program lists the handlers of net/http/pprof, let it add %s: pprof.Trace", bad.error, printable(at.Path))
	default:
		bad.error = fmt.Errorf("%w. If this is a Go program, let it import _ \"net/http/pprof\" and serve http.DefaultServeMux where only you can reach it: go http.ListenAndServe(\"localhost:6060\", nil)", bad.error)
	}
	return bad
}

// commandLine is the name of the program, and whether net/http/pprof is there to tell it.
func (u *urlSource) commandLine(ctx context.Context, profiles *url.URL) (name string, profiled bool) {
	resp, err := u.ask(ctx, profiles.JoinPath("cmdline"))
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	if mediaType(resp) != "text/plain" {
		return "", false
	}
	command, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	name, _, _ = strings.Cut(string(command), "\x00")
	return name, true
}

// mostAged is of how many goroutines the ages are asked: the program stands still while it lists them.
const mostAged = 20_000

// ages asks for a list of the goroutines, and for the leaked ones if the Go runtime can tell.
func (u *urlSource) ages(ctx context.Context, profiles *url.URL, s *bgraph.Snapshot) error {
	var now int64
	for i := range s.Starts {
		now += s.Starts[i].Now
	}
	if now > mostAged {
		return fmt.Errorf("there are %d goroutines, and to list more than %d stops the program for long", now, mostAged)
	}
	ctx, cancel := withTimeout(ctx, u.clock, u.timeout)
	defer cancel()
	var failed error
	for _, list := range []string{"goroutineleak", "goroutine"} {
		var resp *http.Response
		if resp, failed = u.ask(ctx, withQuery(profiles.JoinPath(list), "debug", "2")); failed != nil {
			continue
		}
		failed = gotrace.AddAges(s, io.LimitReader(resp.Body, mostTrace))
		resp.Body.Close()
		if failed == nil {
			break
		}
	}
	return failed
}
