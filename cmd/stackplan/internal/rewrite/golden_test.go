package rewrite

import (
	"testing"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestGolden shows what rewritten code looks like.
func TestGolden(t *testing.T) {
	r := rewriterOf(load(t, nil, false, "./testdata/golden"), nil)
	res := testenv.Need(r.Files(everyCall(r, func(string) plan.Bytes { return 1000 }), false))(t)
	testenv.MustEqual(t, len(res.Files), 1, "files were rewritten")
	for _, got := range res.Files {
		testenv.Golden(t, "golden/golden.txt", got)
	}
}
