package rewrite

import (
	"bytes"
	"os"
	"path/filepath"
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
		name := filepath.Join("testdata", "golden", "golden.txt")
		if *update {
			testenv.Must(t, os.WriteFile(name, got, 0o644))
		}
		want, err := os.ReadFile(name)
		testenv.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; -update writes it anew. Got:\n%s", name, got)
		}
	}
}
