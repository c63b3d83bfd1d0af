package graphview

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Whatever can be decoded can be shown.
func FuzzViews(f *testing.F) {
	sample, err := os.ReadFile(sampleFile)
	testenv.Must(f, err)
	f.Add(sample)
	f.Fuzz(func(t *testing.T, dump []byte) {
		s, err := bgraph.Decode(bytes.NewReader(dump))
		if err != nil {
			return
		}
		for name, write := range allWriters() {
			var b bytes.Buffer
			if err := write(s, &b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		testenv.Must(t, WriteFindings(io.Discard, s, Lint(s)))
		testenv.Must(t, Compare(s, sampleSnapshot()).WriteText(io.Discard))
	})
}
