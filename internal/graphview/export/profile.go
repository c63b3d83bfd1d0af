package export

import (
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"io"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// WriteProfile writes the Snapshot in the compressed format of pprof, for go tool pprof
// and all that read it. It has the sample types cpu, wait and ready (nanoseconds), count
// (of waits) and heap (bytes); WriteFolded says what they count and what the stacks are.
// The labels "node" and "reason" name a node, for a step the one where it began; "edge"
// names a step. The figures are estimates for all waits and steps if only some were
// timed. It does not park.
func WriteProfile(w io.Writer, s *bgraph.Snapshot) error {
	return writeProfile(w, s, []int{metricCPU, metricWait, metricReady, metricCount, metricHeap})
}

// WriteProfileOf is like WriteProfile with one sample type: for programs that store each apart. An unknown one is an
// error, and then nothing is written.
func WriteProfileOf(w io.Writer, s *bgraph.Snapshot, metric string) error {
	only, err := metricOf(metric)
	if err != nil {
		return err
	}
	return writeProfile(w, s, []int{only})
}

// writeProfile writes the metrics. Readers show the first one unless they are asked for another.
func writeProfile(w io.Writer, s *bgraph.Snapshot, metrics []int) error {
	names := words.Names(s)
	p := profileBuilder{texts: map[string]uint64{"": 0}, known: map[bgraph.Frame]uint64{}, list: []string{""}}
	for _, i := range metrics {
		p.nested(profSampleType, func(m *protoBuf) { p.valueType(m, metricNames[i], metricUnits[i]) })
	}
	for _, x := range stackSamples(s, names) {
		p.sample(&x, metrics, names)
	}
	// Symbols are there already: pprof need not look for the program.
	p.nested(profMapping, func(m *protoBuf) {
		m.number(1, 1)
		m.number(5, p.text(words.OrUnknown(s.Program.Name)))
		for has := 7; has <= 10; has++ { // functions, file names, lines, inlined frames
			m.number(has, 1)
		}
	})
	span := max(int64(s.Span), 0)
	if !s.Taken.IsZero() {
		p.number(profTime, uint64(s.Taken.UnixNano()-span))
	}
	p.number(profDuration, uint64(span))
	p.nested(profPeriodType, func(m *protoBuf) { p.valueType(m, "waits", "count") })
	p.number(profPeriod, uint64(max(int64(s.Sampling), 1)))
	for _, line := range words.Head(s) {
		p.number(profComment, p.text(line))
	}
	p.number(profDefaultType, p.text(metricNames[metrics[0]]))
	for _, text := range p.list {
		p.bytes(profText, []byte(text))
	}
	zip := gzip.NewWriter(w)
	if _, err := zip.Write(p.encoded); err != nil {
		return err
	}
	return zip.Close()
}

// The members of a profile, see https://github.com/google/pprof/blob/main/proto/profile.proto.
const (
	profSampleType = iota + 1
	profSample
	profMapping
	profLocation
	profFunction
	profText
	_
	_
	profTime
	profDuration
	profPeriodType
	profPeriod
	profComment
	profDefaultType
)

// A profileBuilder is a profile under construction: texts, places and functions are written once and
// referred to by number.
type profileBuilder struct {
	protoBuf
	texts map[string]uint64
	list  []string                // texts by number
	known map[bgraph.Frame]uint64 // locations; functions with line -1
	ids   [2]uint64               // the last of locations and functions
}

func (p *profileBuilder) text(s string) uint64 {
	id, ok := p.texts[s]
	if !ok {
		id = uint64(len(p.list))
		p.texts[s], p.list = id, append(p.list, s)
	}
	return id
}

func (p *profileBuilder) valueType(m *protoBuf, name, unit string) {
	m.number(1, p.text(name))
	m.number(2, p.text(unit))
}

// sample adds x if it has one of the metrics.
func (p *profileBuilder) sample(x *stackSample, metrics []int, names map[bgraph.Key]string) {
	if !slices.ContainsFunc(metrics, func(metric int) bool { return x.values[metric] != 0 }) {
		return
	}
	var sample, places, values protoBuf
	for i := len(x.leaves) - 1; i >= 0; i-- {
		places.varint(p.location(bgraph.Frame{Function: x.leaves[i]}))
	}
	for i := range x.stack {
		places.varint(p.location(x.stack[i]))
	}
	for _, metric := range metrics {
		values.varint(uint64(x.values[metric]))
	}
	sample.bytes(1, places.encoded)
	sample.bytes(2, values.encoded)
	label := func(key, text string) {
		sample.nested(3, func(m *protoBuf) {
			m.number(1, p.text(key))
			m.number(2, p.text(text))
		})
	}
	if x.edge != nil {
		label("edge", x.leaves[len(x.leaves)-1])
	}
	if x.node != nil {
		label("node", names[x.node.Key])
		label("reason", words.Clean(x.node.Reason))
	}
	p.bytes(profSample, sample.encoded)
}

func (p *profileBuilder) location(f bgraph.Frame) uint64 {
	f.Function, f.File = cmp.Or(words.Clean(f.Function), "?"), words.Clean(f.File)
	id, ok := p.known[f]
	if ok {
		return id
	}
	function := p.function(f)
	p.ids[0]++
	id = p.ids[0]
	p.known[f] = id
	p.nested(profLocation, func(m *protoBuf) {
		m.number(1, id)
		m.number(2, 1)
		m.nested(4, func(line *protoBuf) {
			line.number(1, function)
			line.number(2, uint64(f.Line))
		})
	})
	return id
}

func (p *profileBuilder) function(f bgraph.Frame) uint64 {
	start := max(int64(f.Line)-int64(f.Offset), 0)
	f.Line, f.Offset = -1, 0
	id, ok := p.known[f]
	if ok {
		return id
	}
	p.ids[1]++
	id = p.ids[1]
	p.known[f] = id
	p.nested(profFunction, func(m *protoBuf) {
		m.number(1, id)
		m.number(2, p.text(f.Function))
		m.number(3, p.text(f.Function))
		m.number(4, p.text(f.File))
		m.number(5, uint64(start))
	})
	return id
}

// A protoBuf is a message in the encoding of protocol buffers.
type protoBuf struct{ encoded []byte }

func (m *protoBuf) varint(v uint64) { m.encoded = binary.AppendUvarint(m.encoded, v) }

func (m *protoBuf) number(member int, v uint64) {
	m.varint(uint64(member) << 3)
	m.varint(v)
}

func (m *protoBuf) bytes(member int, b []byte) {
	m.varint(uint64(member)<<3 | 2)
	m.varint(uint64(len(b)))
	m.encoded = append(m.encoded, b...)
}

func (m *protoBuf) nested(member int, fill func(*protoBuf)) {
	var inner protoBuf
	fill(&inner)
	m.bytes(member, inner.encoded)
}
