package rewrite

import (
	"testing"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestGolden shows what rewritten code looks like.
func TestGolden(t *testing.T) {
	r := rewriterOf(load(t, nil, false, "./testdata/golden"), nil)
	res, err := r.Files(everyCall(r, func(string) plan.Bytes { return 1000 }))
	testenv.Must(t, err)
	if len(res.Files) != 1 {
		t.Fatalf("%d files were rewritten", len(res.Files))
	}
	for _, got := range res.Files {
		testenv.Golden(t, "golden/golden.txt", got)
	}
}
