package plan

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// callerPart is what the frame of the measuring function holds below its variable, and
// the return address.
const callerPart = 128

// A bound that is stated is never exceeded, whether it is measured by the stack pointer
// or by what a run leaves of paint on the stack.
func TestBoundsAreNeverExceeded(t *testing.T) {
	dir, binary := realDir(t, "testdata", "depth"), filepath.Join(t.TempDir(), "depth")
	testenv.Run(t, dir, nil, "go", "build", "-o", binary, ".")
	p := testenv.Need(Load(Config{Dir: dir, Binary: binary}))(t)
	full := p.bounds()
	// A stack that moves can't be measured, nor is there a bound for what the
	// runtime puts there by force only if there is room.
	env := []string{"GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1", "GOGC=20"}
	compared := 0
	for seed := range 4 {
		for line := range strings.Lines(testenv.Run(t, "", env, binary, fmt.Sprint(seed+1), "Shown")) {
			var name string
			var sp, paint, bound Bytes
			testenv.Must(t, testenv.Err(fmt.Sscan(line, &name, &sp, &paint)), "%s", line)
			for _, id := range p.graph.byName["main."+name] {
				bound = max(bound, full.length[id])
			}
			if bound == 0 {
				t.Fatalf("main.%s is not reached from where stacks begin", name)
			}
			// What is measured begins at a variable of the caller.
			if sp > bound+callerPart || paint > bound+callerPart {
				t.Errorf("%s took %v by the stack pointer and %v by paint, bound %v", name, sp, paint, bound)
			}
			if paint < 40 || sp > paint+64 {
				t.Errorf("%s: %v by the stack pointer, %v by paint: the measurement is wrong", name, sp, paint)
			}
			compared++
			t.Logf("seed %d: %s of %v", seed+1, line, bound)
		}
	}
	testenv.Equal(t, compared, 4*12, "bounds compared")
}
