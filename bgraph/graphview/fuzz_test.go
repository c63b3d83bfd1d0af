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
	sample := testenv.Need(os.ReadFile(sampleFile))(f)
	f.Add(sample)
	f.Fuzz(func(t *testing.T, dump []byte) {
		s, err := bgraph.Decode(bytes.NewReader(dump))
		if err != nil {
			return
		}
		for name, write := range allWriters() {
			var b bytes.Buffer
			testenv.Must(t, write(s, &b), name)
		}
		testenv.Must(t, WriteFindings(io.Discard, s, Lint(s)))
		testenv.Must(t, Compare(s, sampleSnapshot()).WriteText(io.Discard))
	})
}
