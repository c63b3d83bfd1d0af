package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// replayRate is how many requests a second of a server are in the trace that it seems to send.
const replayRate = 100_000

// A replay answers as a server with net/http/pprof that has made replayRate requests a second while it
// was traced: a trace of fewer requests a second is sent in that much less time. What is of one
// second comes all at its end, as nothing of a generation can be read before that.
type replay struct {
	data  []byte
	span  time.Duration
	ended atomic.Int64 // UnixNano when the last second was over; 0: not yet
}

func (p *replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/debug/pprof/trace":
		http.NotFound(w, r)
	case r.FormValue("seconds") == "0.001": // whether there are traces
		w.Write(p.data[:min(len(p.data), 1<<10)])
	default:
		began, parts := time.Now(), max(1, int(p.span.Round(time.Second)/time.Second))
		for i := range parts {
			time.Sleep(time.Until(began.Add(p.span * time.Duration(i+1) / time.Duration(parts))))
			if i == parts-1 {
				p.ended.Store(time.Now().UnixNano())
			}
			w.Write(p.data[len(p.data)*i/parts : len(p.data)*(i+1)/parts])
			w.(http.Flusher).Flush()
		}
	}
}

// shownAfter runs bgdump as a user does, and returns how long after the end of the trace it had shown all.
func shownAfter(ctx context.Context, bgdump string, p *replay) (time.Duration, error) {
	addr, stop, err := serveHere(p.ServeHTTP)
	if err != nil {
		return 0, err
	}
	defer stop()
	p.ended.Store(0)
	if out, err := exec.CommandContext(ctx, bgdump, "-timeout", "1m", "http://"+addr.String()).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("bgdump: %w: %s", err, lastLine(out))
	}
	ended := p.ended.Load()
	if ended == 0 {
		return 0, fmt.Errorf("bgdump took no trace")
	}
	return time.Since(time.Unix(0, ended)), nil
}

// replayed takes a trace of a server for the replay.
func (r *run) replayed(path string, span time.Duration) (*replay, error) {
	requests, err := r.traceServer(path, span)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &replay{data: data, span: time.Duration(requests) * time.Second / replayRate}, nil
}
