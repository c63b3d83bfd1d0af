package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capriccio-go/capriccio/bgraph"
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
	const sampleField = 2
	ok := eachField(text, func(field protowire.Number, _ uint64, sample []byte) bool {
		if field != sampleField {
			return true
		}
		values, ok := sampleValues(sample)
		if !ok || len(values) != 2 || max(values[0], values[1]) > graphlimits.Number {
			return false
		}
		p.samples = min(p.samples+values[0], graphlimits.Number)
		p.cpu = min(p.cpu+bgraph.Nanos(values[1]), graphlimits.Number)
		return true
	})
	if !ok {
		return cpuProfile{err: errors.New("the answer is no CPU profile")}
	}
	return p
}

// sampleValues are the values of a sample: how many, and their CPU time in nanoseconds. They may be packed.
func sampleValues(sample []byte) (values []uint64, ok bool) {
	const valueField = 2
	ok = eachField(sample, func(field protowire.Number, v uint64, packed []byte) bool {
		if field != valueField {
			return true
		}
		if packed == nil {
			values = append(values, v)
			return true
		}
		for len(packed) > 0 {
			v, n := protowire.ConsumeVarint(packed)
			if n < 0 {
				return false
			}
			values, packed = append(values, v), packed[n:]
		}
		return true
	})
	return values, ok
}

// eachField calls fn for the fields of a message of protobuf: numbers, and bytes that are not nil. It reports whether the message
// is whole and fn was content with all.
func eachField(message []byte, fn func(field protowire.Number, v uint64, bytes []byte) bool) bool {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		var v uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 || !fn(field, v, bytes) {
			return false
		}
		message = message[n:]
	}
	return true
}

// explain tells s what the process used, and how much of that threads used that Go has not started: a trace does not show them.
func (p *cpuProfile) explain(s *bgraph.Snapshot) {
	s.ProcessCPU = p.cpu
	c := &s.Sampled
	if known := c.Steps + c.Calls + c.Collector + c.Tracer + c.Scheduler; known > 0 && p.samples > known {
		c.Foreign = p.samples - known
	}
}
