package rewrite

import (
	"flag"
	"os/exec"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var suites = flag.String("suites", "", "packages of this module, separated by commas, whose tests are run with a checkpoint at every call; takes minutes")

// TestSuites runs whole test suites on rewritten code.
func TestSuites(t *testing.T) {
	if *suites == "" {
		t.Skip("takes minutes; ask for it with -suites=knot,netpoll or the like")
	}
	for suite := range strings.SplitSeq(*suites, ",") {
		t.Run(suite, func(t *testing.T) {
			path := "github.com/capriccio-go/capriccio/" + suite
			r := rewriterOf(load(t, nil, true, path), nil)
			done := testenv.Need(r.Files(everyCall(r, mixed), false))(t)
			t.Logf("%d checkpoints, %d calls refused", len(done.Calls), len(done.Refused))
			text, err := exec.Command("go", "test", "-overlay", overlayOf(t, done), path).CombinedOutput()
			if err != nil {
				t.Errorf("go test: %v\n%s", err, text)
			}
			t.Logf("%s", text)
		})
	}
}
