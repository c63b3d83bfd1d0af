package export

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// WriteFolded writes one metric as folded stacks, the input of flame graph programs:
// lines of calls from the outermost to the innermost with semicolons between them, a
// blank, and a number. The metric is one of
//
//	cpu    nanoseconds that steps ran
//	wait   nanoseconds that tasks waited, until they were ready
//	ready  nanoseconds that they were ready before they ran
//	count  how often tasks began to wait
//	heap   bytes that steps allocated
//
// For wait, ready and count the stack is that of a node, and its innermost "call" the
// name of the node. For cpu and heap it is what the stacks at both ends of an edge have
// in common, as what ran lies below it, and then the node where the step began, and an
// arrow with the node where it ended. Functions are written without the folders of their package. The numbers are
// estimates for all waits and steps if only some were timed. An unknown metric is an
// error that lists the known ones. It does not park.
func WriteFolded(w io.Writer, s *bgraph.Snapshot, metric string) error {
	m, err := metricOf(metric)
	if err != nil {
		return err
	}
	sums := map[string]int64{}
	for _, x := range stackSamples(s, words.Names(s)) {
		if x.values[m] <= 0 { // flame graphs have no room for less than nothing
			continue
		}
		var frames []string
		for _, f := range slices.Backward(x.stack) {
			frames = append(frames, foldedFrame(funcname.Short(f.Function)))
		}
		for i, leaf := range x.leaves {
			if i > 0 { // what begins like the frame before
				leaf = strings.TrimPrefix(leaf, x.leaves[0]+" ")
			}
			frames = append(frames, foldedFrame(leaf))
		}
		sums[strings.Join(frames, ";")] += x.values[m]
	}
	out := bufio.NewWriter(w)
	for _, stack := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(out, "%s %d\n", stack, sums[stack])
	}
	return out.Flush()
}

// foldedFrame takes from a name what would end the frame or the line.
func foldedFrame(name string) string {
	name = strings.TrimSpace(strings.ReplaceAll(words.Clean(name), ";", ","))
	if name == "" {
		return "?"
	}
	return name
}
