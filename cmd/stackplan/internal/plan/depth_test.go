package plan

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A bound that is stated is never exceeded, whether it is measured by the stack pointer
// or by what a run leaves of paint on the stack.
func TestBoundsAreNeverExceeded(t *testing.T) {
	// Package wrap counts as code of others.
	compared := measureDepths(t, "depth", "-ldflags=", Config{Rewrite: []string{"example.com/depth"}}, 4, func(name string, line string, bound Bytes) {
		var sp, paint Bytes
		testenv.Must(t, testenv.Err(fmt.Sscan(line, &sp, &paint)), "%s %q", name, line)
		// What is measured begins at a variable of the caller.
		bound += callerPart
		if sp > bound || paint > bound {
			t.Errorf("%s took %v by the stack pointer and %v by paint, bound %v", name, sp, paint, bound)
		}
		if paint < 40 || sp > paint+64 {
			t.Errorf("%s: %v by the stack pointer, %v by paint: the measurement is wrong", name, sp, paint)
		}
		if strings.HasPrefix(name, "flat") && bound > 3<<10 {
			t.Errorf("%s has a bound of %v, want less than 3 KB", name, bound)
		}
	})
	testenv.Equal(t, compared, 4*(12+19+4), "bounds compared")
}

// callerPart is what the frame of the measuring function holds below its variable, and
// the return address.
const callerPart = 128

// The same of what makes bounds large in the standard library: logs, formats, templates,
// compression, handshakes, and calls by reflection.
func TestBoundsOfTheLibrary(t *testing.T) {
	testenv.NeedsFull(t, "a large program")
	if testing.Short() || testenv.Race {
		t.Skip("loads a large program")
	}
	compared := measureDepths(t, "library", "-ldflags=-w", Config{}, 2, func(name string, line string, bound Bytes) {
		var paint Bytes
		testenv.Must(t, testenv.Err(fmt.Sscan(line, &paint)), "%s %q", name, line)
		if paint > bound+callerPart || paint < 2000 {
			t.Errorf("%s took %v by paint, bound %v", name, paint, bound)
		}
	})
	testenv.Equal(t, compared, 2*8, "bounds compared")
}

// measureDepths runs a program of testdata with each seed, and has each line of what it prints compared: the
// name of a function, then how deep it went.
func measureDepths(t *testing.T, program, flag string, c Config, seeds int, compare func(name, line string, bound Bytes)) (compared int) {
	t.Helper()
	c.Dir, c.Binary = realDir(t, "testdata", program), filepath.Join(t.TempDir(), program)
	testenv.Run(t, c.Dir, nil, "go", "build", flag, "-o", c.Binary, ".")
	p := testenv.Need(Load(c))(t)
	full := p.bounds()
	// A stack that moves can't be measured, nor is there a bound for what the
	// runtime puts there by force only if there is room.
	env := []string{"GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1", "GOGC=20"}
	for seed := range seeds {
		for line := range strings.Lines(testenv.Run(t, "", env, c.Binary, fmt.Sprint(seed+1), "Shown")) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			bound := p.bound(t, full, "main."+name)
			compare(name, rest, bound)
			compared++
			t.Logf("seed %d: %s of %v", seed+1, line, bound)
		}
	}
	return compared
}

// bound is how much stack a function with a linker's name takes at most, under the same conditions as Entry.Bound.
func (p *Program) bound(t *testing.T, full *paths, name string) (most Bytes) {
	t.Helper()
	for _, id := range p.graph.byName[name] {
		if full.next[id] == 0 && full.length[id] == 0 && p.graph.nodes[id].frame > 0 {
			t.Fatalf("%s is not reached from where stacks begin", name)
		}
		most = max(most, full.length[id])
	}
	if len(p.graph.byName[name]) == 0 {
		t.Fatalf("the binary has no function %s", name)
	}
	return most
}
