package gotrace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// upstream is the folder of package x/exp/trace, whose test data come with its module.
func upstream(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/exp").Output()
	if err != nil {
		t.Skipf("the module of x/exp/trace is not found: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "trace")
}

// An encoder writes a trace from Go's text form of it: a line for each event, with its numbers in
// the order in which they are encoded.
type encoder map[string]byte // types of events, by name

// encoderOf learns the types from the constants of the package.
func encoderOf(t *testing.T, folder string) encoder {
	t.Helper()
	source := testenv.Need(os.ReadFile(filepath.Join(folder, "internal/tracev2/events.go")))(t)
	e := encoder{}
	for _, name := range regexp.MustCompile(`(?m)^\tEv(\w+)( EventType = iota)?(\s*//.*)?$`).FindAllSubmatch(source, -1) {
		e[string(name[1])] = byte(len(e))
	}
	if e["EventBatch"] != 1 || e["GoStart"] == 0 {
		t.Fatalf("the types of events are not found: %v", e)
	}
	return e
}

func (e encoder) encode(t *testing.T, text string) []byte {
	t.Helper()
	version, text, _ := strings.Cut(text, "\n")
	out := fmt.Appendf(nil, "go %s trace\x00\x00\x00", strings.TrimPrefix(version, "Trace Go"))
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if data, ok := strings.CutPrefix(fields[0], "data="); ok {
			data := testenv.Need(strconv.Unquote(strings.TrimPrefix(strings.TrimSpace(line), "data=")))(t)
			out = append(binary.AppendUvarint(out, uint64(len(data))), data...)
			continue
		} else if data != fields[0] {
			t.Fatalf("line %q", line)
		}
		if !strings.Contains(fields[0], "=") { // an event; else the next numbers of one
			typ, ok := e[fields[0]]
			if !ok {
				t.Fatalf("event %q is not known", fields[0])
			}
			out, fields = append(out, typ), fields[1:]
		}
		for _, field := range fields {
			_, number, _ := strings.Cut(field, "=")
			v := testenv.Need(strconv.ParseUint(number, 10, 64))(t)
			out = binary.AppendUvarint(out, v)
		}
	}
	return out
}

// Go's own test data are read as Go says: those that are right whole, of those that are wrong what came
// before, and the note has its reason.
func TestGoTestData(t *testing.T) {
	folder := upstream(t)
	e := encoderOf(t, folder)
	files, err := filepath.Glob(filepath.Join(folder, "testdata/tests/*.test"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text := testenv.Need(os.ReadFile(file))(t)
		expect, text2, _ := strings.Cut(string(text), "-- trace --\n")
		data := e.encode(t, text2)
		s, err := Read(bytes.NewReader(data), Options{})
		var said string
		switch {
		case err != nil:
			said = err.Error()
		case s.Validate() != nil:
			t.Errorf("%s: %v", filepath.Base(file), s.Validate())
		default:
			said = strings.Join(s.Notes, "\n")
		}
		if failure := regexp.MustCompile(`FAILURE "(.*)"`).FindStringSubmatch(expect); failure != nil {
			if !regexp.MustCompile(failure[1]).MatchString(said) {
				t.Errorf("%s: %q; want %q", filepath.Base(file), said, failure[1])
			}
		} else if said != "" && !strings.HasSuffix(said, "it has no events") {
			t.Errorf("%s: %s", filepath.Base(file), said)
		}
	}
}

// What Go's fuzzing has found is an error or a graph.
func TestGoFuzzData(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstream(t), "testdata/fuzz/*/*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text := testenv.Need(os.ReadFile(file))(t)
		literal := regexp.MustCompile(`\[\]byte\((".*")\)`).FindSubmatch(text)
		if literal == nil {
			t.Errorf("%s has no bytes", file)
			continue
		}
		data := testenv.Need(strconv.Unquote(string(literal[1])))(t)
		if s, err := Read(strings.NewReader(data), Options{}); err == nil {
			testenv.Must(t, s.Validate())
		}
	}
}

// batchEnds are the offsets in a trace of Go 1.22 or newer at which a batch of events ends.
func batchEnds(t *testing.T, data []byte) (ends []int) {
	t.Helper()
	for at := 16; at < len(data); {
		typ := data[at]
		at++
		if typ == eventBatch {
			var size uint64
			for range 4 { // generation, thread, time, size
				v, n := binary.Uvarint(data[at:])
				size, at = v, at+n
			}
			at += int(size)
		} // else the end of a generation, which is but its type
		ends = append(ends, at)
	}
	if len(ends) == 0 || ends[len(ends)-1] != len(data) {
		t.Fatalf("batches end at %v of %d", ends, len(data))
	}
	return ends
}

// Cut off after any batch, or within one, a trace shows what came before: the more of it, the more.
func TestCutsAtEveryBatch(t *testing.T) {
	for version, all := range map[string]uint64{"releases/go1.22": 302, "releases/go1.23": 302, "releases/go1.24": 302, "releases/go1.25": 302, "releases/go1.27": 302, "go1.26": 790} {
		data := testenv.Need(os.ReadFile("testdata/" + version + ".trace"))(t)
		var last uint64
		for _, end := range batchEnds(t, data) {
			for _, cut := range []int{end - 1, end} {
				s, err := Read(bytes.NewReader(data[:cut]), Options{})
				if err != nil {
					if last > 0 || !strings.HasPrefix(err.Error(), "gotrace: ") {
						t.Errorf("%s: %d of %d bytes: %v", version, cut, len(data), err)
					}
					continue
				}
				testenv.Must(t, s.Validate())
				steps := stepsOf(s)
				if cut < len(data) && len(s.Notes) == 0 {
					t.Errorf("%s: %d of %d bytes: no note", version, cut, len(data))
				}
				testenv.AtLeast(t, steps, last, "%s: %d of %d bytes: N steps, with fewer bytes %d", version, cut, len(data), last)
				last = steps
			}
		}
		testenv.AtLeast(t, last, all, "%s: N steps at the end", version)
	}
}

func stepsOf(s *bgraph.Snapshot) (steps uint64) {
	for e := range slices.Values(s.Edges) {
		steps += e.Count
	}
	return steps
}
