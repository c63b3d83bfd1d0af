package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// mostProbed is how many addresses of a process are asked.
const mostProbed = 64

const servingProfiles = `
    import "net/http"
    import _ "net/http/pprof"
    go http.ListenAndServe("localhost:6060", nil)`

// probe looks for net/http/pprof at the addresses where a process listens and this machine
// itself is let in, and returns the first that has it. If onlyLoopback is set, addresses that other machines reach are left out.
func probe(ctx context.Context, pid int, onlyLoopback bool, sur *surroundings, timeout time.Duration) (*url.URL, error) {
	addrs, err := sur.kernel.listening(pid, onlyLoopback)
	if err != nil {
		return nil, fmt.Errorf("process %d: where it listens is not known: %w", pid, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("process %d listens on no loopback address", pid)
	}
	probing, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		at  *url.URL
		err error
	}
	answers := make(chan answer, mostProbed)
	asked := addrs[:min(len(addrs), mostProbed)]
	for _, addr := range asked { // at once, as each may let bgdump wait for timeout
		go func() {
			u := &url.URL{Scheme: "http", Host: addr, Path: profilePath}
			src := newURLSource(u, sur, &settings{timeout: timeout})
			src.transport.Proxy, src.transport.DisableKeepAlives = nil, true
			src.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			answers <- answer{u, src.findTraces(probing, u)}
		}()
	}
	var almost error // profiles may be there
	for range asked {
		a := <-answers
		if a.err == nil {
			return a.at, nil
		}
		if mayHaveProfiles(a.err) {
			almost = clearer(almost, fmt.Errorf("process %d, at %s: %w", pid, a.at.Host, a.err))
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if almost != nil {
		return nil, fmt.Errorf("%w.\nIf that is not net/http/pprof, add these lines to the program:%s", almost, servingProfiles)
	}
	return nil, fmt.Errorf("process %d does not serve net/http/pprof where it listens (%s). Add these lines to it:%s", pid, strings.Join(addrs, ", "), servingProfiles)
}

// mayHaveProfiles reports whether net/http/pprof may be where a probe got the error: it wants a password, is in use, or is slow.
func mayHaveProfiles(err error) bool {
	var bad badAnswer
	return errors.As(err, &bad) && !bad.missing || errors.As(err, new(noAnswer))
}

// clearer returns the error that says more of where profiles are: that of an answer, rather than that of silence.
func clearer(before, err error) error {
	if before == nil || errors.As(before, new(noAnswer)) && !errors.As(err, new(noAnswer)) {
		return err
	}
	return before
}
