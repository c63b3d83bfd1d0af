package bgraph

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/breathe"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A dump is one line, dumpTitle and the number of the format, and a JSON document. See
// docs/dump-format.md.
const (
	dumpTitle  = "capriccio blocking graph "
	dumpFormat = 1
)

// Encode writes s as a dump, which Decode reads. Control characters in texts are
// replaced and texts that are too long are shortened; otherwise s must be valid (see
// Validate), and smaller than graphlimits.Bytes, or nothing is written and it is an error. So
// is what w returns. It calls Write once.
func (s *Snapshot) Encode(w io.Writer) error {
	defer breathe.Begin()()
	dump, err := s.dump()
	if err != nil {
		return fmt.Errorf("bgraph: %w", err)
	}
	if _, err := w.Write(dump); err != nil {
		return fmt.Errorf("bgraph: writing the dump: %w", err)
	}
	return nil
}

// dump returns the bytes that Encode writes.
func (s *Snapshot) dump() ([]byte, error) {
	if s == nil {
		return nil, errNoSnapshot
	}
	out := *s
	if !out.isClean() {
		out = *out.Clone()
		out.clean()
	}
	out.Overruns = slices.Clone(out.Overruns)
	out.useUTC()
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("this graph cannot be written: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%d\n", dumpTitle, dumpFormat)
	if err := out.writeDocument(&b); err != nil {
		return nil, fmt.Errorf("this graph cannot be written: %w", err)
	}
	if b.Len() > graphlimits.Bytes {
		return nil, fmt.Errorf("the dump would have %d bytes, and at most %d can be read again; limit the nodes and edges of the graph", b.Len(), graphlimits.Bytes)
	}
	return b.Bytes(), nil
}

// writeDocument writes what json.Encoder does. It writes nodes and edges one by one, and
// between them gives the loops of this process a chance to run.
func (s *Snapshot) writeDocument(b *bytes.Buffer) error {
	rest := *s
	rest.Nodes, rest.Edges = nil, nil
	frame, err := json.Marshal(&rest)
	if err != nil {
		return err
	}
	// In a text, the quotes would be escaped.
	before, after, ok := bytes.Cut(frame, []byte(`"nodes":null,"edges":null`))
	if !ok {
		panic(fmt.Sprintf("bgraph: want nodes and edges next to each other, got %.200s", frame))
	}
	b.Write(before)
	b.WriteString(`"nodes":`)
	if err := writeList(b, s.Nodes); err != nil {
		return err
	}
	b.WriteString(`,"edges":`)
	if err := writeList(b, s.Edges); err != nil {
		return err
	}
	b.Write(after)
	b.WriteByte('\n')
	return nil
}

func writeList[E any](b *bytes.Buffer, list []E) error {
	if list == nil {
		b.WriteString("null")
		return nil
	}
	b.WriteByte('[')
	var pause breathe.Breather
	to := json.NewEncoder(b)
	for i := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := to.Encode(&list[i]); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the line end
		if b.Len() > graphlimits.Bytes {
			break // it will be refused
		}
		pause.Take()
	}
	b.WriteByte(']')
	return nil
}

// Decode reads a dump to its end. It may come from anywhere: what it returns is valid
// (see Validate), its texts can be shown on a terminal, and it uses little more memory
// than graphlimits.Bytes and what an honest dump of that size decodes to. Members of the
// document that it does not know are left out. The times are in UTC.
func Decode(r io.Reader) (*Snapshot, error) {
	s, err := decode(r)
	if err != nil {
		return nil, fmt.Errorf("bgraph: reading the dump: %w", err)
	}
	return s, nil
}

func decode(r io.Reader) (*Snapshot, error) {
	in := bufio.NewReaderSize(io.LimitReader(r, graphlimits.Bytes+1), 4096)
	head, err := in.Peek(len(dumpTitle) + 16)
	if err != nil && err != io.EOF {
		return nil, err
	}
	title, err := checkTitle(head)
	if err != nil {
		return nil, err
	}
	dump, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if len(dump) > graphlimits.Bytes {
		return nil, fmt.Errorf("it has more than %d bytes, the most that is read", graphlimits.Bytes)
	}
	s, err := decodeDocument(dump[title:], title)
	if err != nil {
		return nil, err
	}
	s.clean()
	s.useUTC()
	s.dropEmpty()
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return s, nil
}

// checkTitle returns the length of the first line of a dump that begins with head.
func checkTitle(head []byte) (int, error) {
	if len(head) == 0 {
		return 0, errors.New("it is empty")
	}
	if !bytes.HasPrefix(head, []byte(dumpTitle)) {
		if strings.HasPrefix(dumpTitle, string(head)) {
			return 0, errors.New("it is cut off in its first line")
		}
		return 0, notADump(head)
	}
	rest := head[len(dumpTitle):]
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if digits == len(rest) && digits < 10 {
		return 0, errors.New("it is cut off in its first line")
	}
	format, err := strconv.Atoi(string(rest[:digits]))
	if err != nil || digits == len(rest) || rest[digits] != '\n' || format < 1 || rest[0] == '0' {
		return 0, notADump(head)
	}
	if format != dumpFormat {
		return 0, fmt.Errorf("this dump has format %d; this program reads %d; use a newer bgdump", format, dumpFormat)
	}
	return len(dumpTitle) + digits + 1, nil
}

func notADump(head []byte) error {
	what := ""
	switch trimmed := bytes.TrimSpace(head); {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		what = "; this is compressed with gzip, perhaps a profile for pprof"
	case bytes.HasPrefix(trimmed, []byte("<")):
		what = "; this looks like a web page"
	case bytes.HasPrefix(trimmed, []byte("{")):
		what = "; this looks like JSON without that line"
	}
	return fmt.Errorf("this is not a dump: the first line is not %q, it begins with %q%s",
		dumpTitle+strconv.Itoa(dumpFormat), head[:min(len(head), 32)], what)
}

// decodeDocument reads the JSON that begins at offset of the dump.
func decodeDocument(doc []byte, offset int) (*Snapshot, error) {
	trimmed := bytes.TrimLeft(doc, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, errors.New("it is cut off after its first line")
	}
	if trimmed[0] != '{' {
		return nil, fmt.Errorf("it is malformed at byte %d: a JSON object should begin there, not %q", offset+len(doc)-len(trimmed), trimmed[0])
	}
	finished, err := scanDocument(doc)
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	s := new(Snapshot)
	err = json.Unmarshal(doc, s)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &syntax) && !finished && syntax.Offset >= int64(len(doc)):
		return nil, fmt.Errorf("it is cut off after %d bytes", offset+len(doc))
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("it is malformed at byte %d: %w", int64(offset)+syntax.Offset-1, err)
	case errors.As(err, &mismatch):
		return nil, fmt.Errorf("it is malformed before byte %d: %s is a JSON %s; want one that fits %v",
			int64(offset)+mismatch.Offset, mismatch.Field, graphlimits.Shorten(mismatch.Value, 40), mismatch.Type)
	}
	return nil, fmt.Errorf("it is malformed: %w", err)
}

// A textRule is a graphlimits.TextRule that Validate checks.
type textRule struct{ graphlimits.TextRule }

var (
	nameRule  = textRule{graphlimits.Name}
	stackRule = textRule{graphlimits.TextRule{Most: graphlimits.Stack, Lines: true}}
)

// eachText calls fn for every text of s.
func (s *Snapshot) eachText(fn func(text *string, rule textRule)) {
	name := func(texts ...*string) {
		for _, t := range texts {
			fn(t, nameRule)
		}
	}
	name(&s.Kind, &s.Program.Name, &s.Program.Host, &s.Program.Go)
	for i := range s.Starts {
		name(&s.Starts[i].Function, &s.Starts[i].File)
	}
	for i := range s.Assists {
		name(&s.Assists[i].Function, &s.Assists[i].File)
	}
	for i := range s.Spans {
		name(&s.Spans[i].Kind, &s.Spans[i].Name)
		for p := range s.Spans[i].parts() {
			name(&p.By.Function, &p.By.File)
		}
	}
	for i := range s.Slowest {
		sp := &s.Slowest[i]
		name(&sp.Kind, &sp.Name)
		for p := range sp.parts() {
			name(&p.By.Function, &p.By.File)
		}
	}
	for i := range s.Notes {
		name(&s.Notes[i])
	}
	for i := range s.Sources {
		name(&s.Sources[i].Name, &s.Sources[i].Failed)
	}
	for i := range s.Resources {
		name(&s.Resources[i].Name, &s.Resources[i].Unit)
	}
	var pause breathe.Breather
	for i := range s.Nodes {
		pause.Take()
		n := &s.Nodes[i]
		name(&n.Reason, &n.Label)
		for j := range n.Stack {
			name(&n.Stack[j].Function, &n.Stack[j].File)
		}
		for j := range n.Wakers {
			name(&n.Wakers[j].Function, &n.Wakers[j].File)
		}
	}
	for i := range s.Edges {
		for j := range s.Edges[i].Functions {
			name(&s.Edges[i].Functions[j].Function, &s.Edges[i].Functions[j].File)
		}
	}
	for i := range s.Overruns {
		name(&s.Overruns[i].Task)
		fn(&s.Overruns[i].Stack, stackRule)
	}
	if s.Sched == nil {
		return
	}
	name(&s.Sched.Policy)
	for i := range s.Sched.Refusals {
		name(&s.Sched.Refusals[i].Why)
	}
	for i := range s.Sched.Resources {
		name(&s.Sched.Resources[i].Name, &s.Sched.Resources[i].State)
	}
	for i := range s.Sched.Nodes {
		name(&s.Sched.Nodes[i].Held)
	}
}

func (s *Snapshot) isClean() bool {
	clean := true
	s.eachText(func(text *string, rule textRule) { clean = clean && rule.Fits(*text) })
	return clean
}

func (s *Snapshot) clean() {
	s.eachText(func(text *string, rule textRule) { *text = rule.Clean(*text) })
}

// useUTC makes equal times equal values.
func (s *Snapshot) useUTC() {
	utc := func(t *time.Time) { *t = t.UTC() }
	utc(&s.Taken)
	utc(&s.Program.Started)
	for i := range s.Overruns {
		utc(&s.Overruns[i].At)
	}
}

// dropEmpty makes all empty lists nil, so that there is one value for them.
func (s *Snapshot) dropEmpty() {
	s.Loops, s.Resources, s.Overruns = orNil(s.Loops), orNil(s.Resources), orNil(s.Overruns)
	s.Nodes, s.Edges, s.Crossings = orNil(s.Nodes), orNil(s.Edges), orNil(s.Crossings)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Stack, n.Loops, n.Wakers = orNil(n.Stack), orNil(n.Loops), orNil(n.Wakers)
		n.Wait.dropEmpty()
		n.Ready.dropEmpty()
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		e.Changes, e.Functions = orNil(e.Changes), orNil(e.Functions)
		e.CPU.dropEmpty()
	}
	s.Starts, s.Spans, s.Notes, s.Sources = orNil(s.Starts), orNil(s.Spans), orNil(s.Notes), orNil(s.Sources)
	for i := range s.Sources {
		s.Sources[i].Places = orNil(s.Sources[i].Places)
	}
	for i := range s.Spans {
		s.Spans[i].Path, s.Spans[i].Timeline = orNil(s.Spans[i].Path), orNil(s.Spans[i].Timeline)
	}
	s.Slowest = orNil(s.Slowest)
	for i := range s.Slowest {
		s.Slowest[i].Path, s.Slowest[i].Timeline = orNil(s.Slowest[i].Path), orNil(s.Slowest[i].Timeline)
	}
	s.eachTimes(func(_ string, t *Times) { t.dropEmpty() })
	if s.Sched != nil {
		s.Sched.Resources, s.Sched.Nodes, s.Sched.Refusals = orNil(s.Sched.Resources), orNil(s.Sched.Nodes), orNil(s.Sched.Refusals)
	}
}

func (t *Times) dropEmpty() { t.Hist, t.Fine = orNil(t.Hist), orNil(t.Fine) }

func (t *Times) unshare() { t.Hist, t.Fine = slices.Clone(t.Hist), slices.Clone(t.Fine) }

func orNil[S ~[]E, E any](list S) S {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Clone returns a copy that shares nothing with s.
func (s *Snapshot) Clone() *Snapshot {
	out := *s
	out.Loops = slices.Clone(s.Loops)
	out.Resources = slices.Clone(s.Resources)
	out.Overruns = slices.Clone(s.Overruns)
	out.Crossings = slices.Clone(s.Crossings)
	out.Nodes = slices.Clone(s.Nodes)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.Stack, n.Loops, n.Wakers = slices.Clone(n.Stack), slices.Clone(n.Loops), slices.Clone(n.Wakers)
		n.Wait.unshare()
		n.Ready.unshare()
	}
	out.Edges = slices.Clone(s.Edges)
	for i := range out.Edges {
		e := &out.Edges[i]
		e.Changes, e.Functions = slices.Clone(e.Changes), slices.Clone(e.Functions)
		e.CPU.unshare()
	}
	out.Starts, out.Spans, out.Notes, out.Assists = slices.Clone(s.Starts), cloneSpans(s.Spans), slices.Clone(s.Notes), slices.Clone(s.Assists)
	out.Slowest = cloneSpans(s.Slowest)
	out.Sources = cloneSources(s.Sources)
	out.eachTimes(func(_ string, t *Times) { t.unshare() })
	if s.Sched != nil {
		sched := *s.Sched
		sched.Resources, sched.Nodes = slices.Clone(sched.Resources), slices.Clone(sched.Nodes)
		sched.Refusals = slices.Clone(sched.Refusals)
		out.Sched = &sched
	}
	return &out
}
