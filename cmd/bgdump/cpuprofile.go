package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/google/pprof/profile"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// mostProfile is how long a CPU profile may be, decompressed.
const mostProfile = 64 << 20

// A cpuProfile is the sum of a CPU profile that was taken beside a trace. Its samples by function come with the trace.
type cpuProfile struct {
	samples uint64
	cpu     bgraph.Nanos
	err     error // there is none
}

// profile takes a CPU profile.
func (u *urlSource) profile(ctx context.Context, at *url.URL) cpuProfile {
	resp, err := u.ask(ctx, at)
	if err != nil {
		return cpuProfile{err: err}
	}
	defer resp.Body.Close()
	return readCPUProfile(resp.Body)
}

// readCPUProfile adds up the samples of a profile in the format of pprof, compressed by gzip.
func readCPUProfile(r io.Reader) (p cpuProfile) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return cpuProfile{err: fmt.Errorf("the answer is no profile: %w", err)}
	}
	text, err := io.ReadAll(io.LimitReader(z, mostProfile+1))
	switch {
	case err != nil:
		return cpuProfile{err: fmt.Errorf("it broke off: %w", err)}
	case len(text) > mostProfile:
		return cpuProfile{err: fmt.Errorf("it is longer than %d bytes", mostProfile)}
	}
	parsed, err := profile.ParseUncompressed(text)
	if err != nil {
		return cpuProfile{err: fmt.Errorf("the answer is no CPU profile: %w", err)}
	}
	for _, sample := range parsed.Sample {
		if len(sample.Value) != 2 || min(sample.Value[0], sample.Value[1]) < 0 || max(sample.Value[0], sample.Value[1]) > graphlimits.Number {
			return cpuProfile{err: errors.New("the answer is no CPU profile")}
		}
		p.samples = min(p.samples+uint64(sample.Value[0]), graphlimits.Number)
		cpu := bgraph.Nanos(sample.Value[1])
		p.cpu = min(p.cpu, graphlimits.Number-cpu) + cpu // the sum of two may be more than fits
	}
	return p
}

// explain tells s what the process used, and how much of that threads used that Go has not started: a trace does not show them.
func (p *cpuProfile) explain(s *bgraph.Snapshot) {
	s.ProcessCPU = p.cpu
	c := &s.Sampled
	if known := c.Steps + c.Calls + c.Collector + c.Tracer + c.Scheduler; known > 0 && p.samples > known {
		c.Foreign = p.samples - known
	}
}
