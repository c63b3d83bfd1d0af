package bgraph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The document describes every member, and the limits as they are.
func TestDumpFormatIsDocumented(t *testing.T) {
	text := testenv.Need(os.ReadFile("../docs/dump-format.md"))(t)
	doc := string(text)
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(v reflect.Type) {
		for v.Kind() == reflect.Slice || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct || v == reflect.TypeFor[time.Time]() || seen[v] {
			return
		}
		seen[v] = true
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(doc, "| `"+name+"` |") {
				t.Errorf("%v.%s is not in the document as %q", v, v.Field(i).Name, name)
			}
			visit(v.Field(i).Type)
		}
	}
	visit(reflect.TypeFor[Snapshot]())
	testenv.AtLeast(t, len(seen), 15, "only N types were visited")
	for _, limit := range []string{
		"64 MiB", grouped(graphlimits.Nodes), grouped(graphlimits.Edges), grouped(graphlimits.Loops), fmt.Sprint(graphlimits.Frames),
		fmt.Sprint(graphlimits.Resources), fmt.Sprint(graphlimits.Overruns), grouped(graphlimits.Text), grouped(graphlimits.Stack), fmt.Sprint(buckets.Count), "2^62",
	} {
		if !strings.Contains(doc, limit) {
			t.Errorf("the limit %s is not in the document", limit)
		}
	}
	checkDocExample(t, doc)
}

// checkDocExample compares the dump that the document shows, with its JSON indented.
func checkDocExample(t *testing.T, doc string) {
	want := encoded(t, docExample())
	_, shown, _ := strings.Cut(doc, "```\n"+dumpTitle+"1\n")
	shown, _, _ = strings.Cut(shown, "```")
	var got bytes.Buffer
	got.WriteString(dumpTitle + "1\n")
	err := json.Compact(&got, []byte(shown))
	if err != nil || !bytes.Equal(bytes.TrimSpace(got.Bytes()), bytes.TrimSpace(want)) {
		var b bytes.Buffer
		_ = json.Indent(&b, want[len(dumpTitle)+2:], "", "  ")
		t.Errorf("the example in the document (%v) is not\n%s1\n%s", err, dumpTitle, b.Bytes())
	}
}

func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// docExample is the dump that the document shows.
func docExample() *Snapshot {
	s := smallSnapshot()
	read := s.Nodes[1]
	read.Stack = read.Stack[1:]
	read.Wait.Hist, read.Ready.Hist = Histogram{0, 48, 2}, Histogram{50}
	read.Wait.Sum, read.Wait.Max, read.Ready.Sum, read.Ready.Max = 2400, 100, 1000, 30
	start := s.Nodes[0]
	edge := s.Edges[1]
	edge.From, edge.To, edge.Overruns = read.Key, read.Key, 0
	edge.CPU.Hist, edge.CPU.Sum, edge.CPU.Max = Histogram{0, 0, 50}, 4000, 96
	s.Nodes, s.Edges = []Node{start, read}, []Edge{edge}
	s.Overruns, s.Sched, s.Overflow = nil, nil, Overflow{MaxNodes: 4096, MaxEdges: 16384}
	return s
}
