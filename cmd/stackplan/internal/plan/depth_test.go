package plan

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A bound that is stated is never exceeded, whether it is measured by the stack pointer
// or by what a run leaves of paint on the stack.
func TestBoundsAreNeverExceeded(t *testing.T) {
	dir := realDir(t, "testdata", "depth")
	binary := filepath.Join(t.TempDir(), "depth")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Package wrap counts as code of others.
	p, err := Load(Config{Dir: dir, Binary: binary, Rewrite: []string{"example.com/depth"}})
	testenv.Must(t, err)
	compared := 0
	for seed := 1; seed <= 4; seed++ {
		cmd := exec.Command(binary, fmt.Sprint(seed))
		// A stack that moves can't be measured, nor is there a bound for what the
		// runtime puts there by force only if there is room.
		cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1", "GOGC=20")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, out)
		}
		lines := bufio.NewScanner(bytes.NewReader(out))
		for lines.Scan() {
			var name string
			var sp, paint Bytes
			if _, err := fmt.Sscan(lines.Text(), &name, &sp, &paint); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			bound, err := p.Bound("main." + name)
			testenv.Must(t, err)
			// What is measured begins at a variable of the caller.
			bound += callerPart
			if sp > bound || paint > bound {
				t.Errorf("seed %d: %s took %v by the stack pointer and %v by paint, bound %v", seed, name, sp, paint, bound)
			}
			if paint < 40 || sp > paint+64 {
				t.Errorf("seed %d: %s: %v by the stack pointer, %v by paint: the measurement is wrong", seed, name, sp, paint)
			}
			if strings.HasPrefix(name, "flat") && bound > 3<<10 {
				t.Errorf("seed %d: %s has a bound of %v, want less than 3 KB", seed, name, bound)
			}
			compared++
			t.Logf("seed %d: %-12s %8v %8v of %v", seed, name, sp, paint, bound)
		}
	}
	if compared != 4*(12+19+4) {
		t.Errorf("%d bounds compared, want 140", compared)
	}
}

// callerPart is what the frame of the measuring function holds below its variable, and
// the return address.
const callerPart = 128

// The same of what makes bounds large in the standard library: logs, formats, templates,
// compression, handshakes, and calls by reflection.
func TestBoundsOfTheLibrary(t *testing.T) {
	testenv.NeedsFull(t, "a large program")
	if testing.Short() || underRace {
		t.Skip("loads a large program")
	}
	dir := realDir(t, "testdata", "library")
	binary := filepath.Join(t.TempDir(), "library")
	build := exec.Command("go", "build", "-ldflags=-w", "-o", binary, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, err := Load(Config{Dir: dir, Binary: binary})
	testenv.Must(t, err)
	for seed := 1; seed <= 2; seed++ {
		cmd := exec.Command(binary, fmt.Sprint(seed), "Shown")
		cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1", "GOGC=20")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, out)
		}
		compared := 0
		lines := bufio.NewScanner(bytes.NewReader(out))
		for lines.Scan() {
			var name string
			var paint Bytes
			if _, err := fmt.Sscan(lines.Text(), &name, &paint); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			bound, err := p.Bound("main." + name)
			testenv.Must(t, err)
			if paint > bound+callerPart || paint < 2000 {
				t.Errorf("seed %d: %s took %v by paint, bound %v", seed, name, paint, bound)
			}
			compared++
			t.Logf("seed %d: %-12s %8v of %v", seed, name, paint, bound)
		}
		if compared != 8 {
			t.Errorf("seed %d: %d bounds compared, want 8", seed, compared)
		}
	}
}
