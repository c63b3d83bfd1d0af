package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The bounds of -probe.
const (
	mostProbed  = 64 // addresses of a process
	probeWithin = time.Second
)

// probe looks for net/http/pprof at the addresses where a process listens and this machine
// itself is let in, and returns the first that has it.
func probe(ctx context.Context, pid int, k *kernel) (*url.URL, error) {
	addrs, err := k.listening(pid)
	if err != nil {
		return nil, fmt.Errorf("process %d: where it listens is not known: %w", pid, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("process %d listens on no loopback address", pid)
	}
	client := &http.Client{Timeout: probeWithin, Transport: &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	addrs = addrs[:min(len(addrs), mostProbed)]
	for _, addr := range addrs {
		u := &url.URL{Scheme: "http", Host: addr, Path: profilePath}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("cmdline").String(), nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue // it speaks something else there
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK && mediaType(resp) == "text/plain" {
			return u, nil
		}
	}
	return nil, fmt.Errorf(`process %d does not serve net/http/pprof where it listens (%s). Add these lines to it:
    import "net/http"
    import _ "net/http/pprof"
    go http.ListenAndServe("localhost:6060", nil)`, pid, strings.Join(addrs, ", "))
}
