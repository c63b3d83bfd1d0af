package plan

import (
	"bytes"
	"io"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// scene is a report with something of everything.
func scene() *Report {
	return &Report{
		Package: "example.com/shop", Go: "go1.26", Arch: "amd64", Functions: 4000, Reached: 321,
		Entries: []Entry{
			{Function: "example.com/shop.(*cart).serve", Kind: "task", Bound: 10368, Recursive: true, Panic: 1200, First: 640, Path: []Step{
				{"example.com/shop.(*cart).serve", 128, false}, {"example.com/shop.walk", 96, true}, {"example.com/shop.walk", 96, false}, {"encoding/json.Marshal", 10048, false}}},
			{Function: "main.main", Kind: "goroutine", Bound: 512, Panic: 700, First: 512, Path: []Step{{"main.main", 512, false}}},
		},
		Recursion: []Recursion{
			{Functions: []string{"example.com/shop.walk", "example.com/shop.walkAll"}, Checkpoints: 1},
			{Functions: []string{"encoding/json.a", "encoding/json.b", "encoding/json.c", "encoding/json.d", "encoding/json.e", "encoding/json.f", "encoding/json.g"}, Open: 2},
		},
		Plan: &Plan{Package: "example.com/shop", MaxPath: 2 << 10, MinChunk: 4 << 10, CallSites: 40, Longest: 10144, Checkpoints: []Checkpoint{
			{File: "/src/shop/cart.go", Offset: 100, End: 110, Line: 12, Col: 3, Caller: "example.com/shop.walkAll", Callee: "example.com/shop.walk", Need: 352, Site: "example.com/shop/cart.go:12:3", PackagePath: "example.com/shop", BackEdge: true},
			{File: "/src/shop/cart.go", Offset: 200, End: 222, Line: 30, Col: 9, Caller: "example.com/shop.walk", Callee: "a.F, b.<G>, c.H", Need: 10048, Site: "example.com/shop/cart.go:30:9", PackagePath: "example.com/shop"}},
			Entries: []EntryPlan{{"example.com/shop.(*cart).serve", 640}, {"main.main", 512}}},
		Parks:   []ParkCall{{"example.com/shop/cart.go:44:2", "example.com/shop.(*cart).serve", "netpoll.(*Conn).Read"}},
		Unknown: []string{"example.com/shop.do:7 calls a (int) error", "x.y:1 calls a ()"},
		NoFrame: []string{"runtime.memmove: assembly, 0 B", "runtime.mcall: bound 32 B"},
		Sweep:   []SweepRow{{512, 30, 40, 0.75, 10144}, {1024, 20, 40, 0.5, 10144}, {2048, 10, 40, 0.25, 10144}, {65536, 1, 40, 0.025, 20000}},
	}
}

func TestGolden(t *testing.T) {
	r := scene()
	for name, write := range map[string]func(io.Writer) error{
		"report.txt":         func(w io.Writer) error { return r.WriteText(w, false) },
		"report-verbose.txt": func(w io.Writer) error { return r.WriteText(w, true) },
		"report.json":        r.WriteJSON,
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		testenv.Golden(t, name+".golden", got.Bytes())
	}
}
