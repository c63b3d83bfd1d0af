package bgraph

import (
	"cmp"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

// WriteProfile writes the Snapshot in the compressed format of pprof, for go tool pprof
// and all that read it. It has the sample types cpu, wait and ready (nanoseconds), count
// (of waits) and heap (bytes); WriteFolded says what they count and what the stacks are.
// The labels "node" and "reason" name a node, for a step the one where it began; "edge"
// names a step. The figures are estimates for all waits and steps if only some were
// timed. It does not park.
func (s *Snapshot) WriteProfile(w io.Writer) error {
	names := s.distinctNames()
	b := profileBuilder{
		functions: map[Frame]*profile.Function{},
		locations: map[Frame]*profile.Location{},
	}
	p := &b.profile
	for i := range metricNames {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: metricNames[i], Unit: metricUnits[i]})
	}
	p.DefaultSampleType = metricNames[metricCPU]
	p.PeriodType, p.Period = &profile.ValueType{Type: "waits", Unit: "count"}, max(int64(s.Sampling), 1)
	p.DurationNanos = max(int64(s.Span), 0)
	if !s.Taken.IsZero() {
		p.TimeNanos = s.Taken.UnixNano() - p.DurationNanos
	}
	// Symbols are there already: pprof need not look for the program.
	p.Mapping = []*profile.Mapping{{ID: 1, File: orUnknown(s.Program.Name),
		HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}}
	p.Comments = s.headLines()
	for _, x := range s.stackSamples(names) {
		sample := &profile.Sample{Value: append([]int64(nil), x.values[:]...), Label: map[string][]string{}}
		for i := len(x.leaves) - 1; i >= 0; i-- {
			sample.Location = append(sample.Location, b.location(Frame{Function: x.leaves[i]}))
		}
		for i := range x.stack {
			sample.Location = append(sample.Location, b.location(x.stack[i]))
		}
		if x.node != nil {
			sample.Label["node"] = []string{names[x.node.Key]}
			sample.Label["reason"] = []string{cleanText(x.node.Reason)}
		}
		if x.edge != nil {
			sample.Label["edge"] = []string{x.leaves[len(x.leaves)-1]}
		}
		p.Sample = append(p.Sample, sample)
	}
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("bgraph: profile: %w", err)
	}
	return p.Write(w)
}

// A profileBuilder gives equal functions and places one entry each.
type profileBuilder struct {
	profile   profile.Profile
	functions map[Frame]*profile.Function // lines 0
	locations map[Frame]*profile.Location
}

func (b *profileBuilder) location(f Frame) *profile.Location {
	f.Function, f.File = cmp.Or(cleanText(f.Function), "?"), cleanText(f.File)
	if l := b.locations[f]; l != nil {
		return l
	}
	l := &profile.Location{
		ID:      uint64(len(b.profile.Location) + 1),
		Mapping: b.profile.Mapping[0],
		Line:    []profile.Line{{Function: b.function(f), Line: int64(f.Line)}},
	}
	b.profile.Location = append(b.profile.Location, l)
	b.locations[f] = l
	return l
}

func (b *profileBuilder) function(f Frame) *profile.Function {
	start := int64(f.Line) - int64(f.Offset)
	f.Line, f.Offset = 0, 0
	if fn := b.functions[f]; fn != nil {
		return fn
	}
	fn := &profile.Function{
		ID:   uint64(len(b.profile.Function) + 1),
		Name: f.Function, SystemName: f.Function, Filename: f.File, StartLine: max(start, 0),
	}
	b.profile.Function = append(b.profile.Function, fn)
	b.functions[f] = fn
	return fn
}
