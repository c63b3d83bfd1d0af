package graphview_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Whatever can be decoded can be shown.
func FuzzViews(f *testing.F) {
	f.Add(graphcases.SampleDump)
	f.Fuzz(func(t *testing.T, dump []byte) {
		s, err := bgraph.Decode(bytes.NewReader(dump))
		if err != nil {
			return
		}
		for name, write := range allWriters() {
			var b bytes.Buffer
			testenv.Must(t, write(s, &b), name)
		}
		testenv.Must(t, lint.Write(io.Discard, s, lint.Find(s)))
		testenv.Must(t, graphcompare.Compare(s, graphcases.Sample()).WriteText(io.Discard))
	})
}
