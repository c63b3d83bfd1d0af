package rewrite

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// TestGolden shows what rewritten code looks like.
func TestGolden(t *testing.T) {
	r := rewriterOf(load(t, nil, false, "./testdata/golden"), nil)
	res, err := r.Files(everyCall(r, func(string) plan.Bytes { return 1000 }))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Files) != 1 {
		t.Fatalf("%d files were rewritten", len(res.Files))
	}
	for _, got := range res.Files {
		name := filepath.Join("testdata", "golden", "golden.txt")
		if *update {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; -update writes it anew. Got:\n%s", name, got)
		}
	}
}
