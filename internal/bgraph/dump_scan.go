package bgraph

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// scanDocument bounds what decoding a document allocates before it is decoded: in "[0,0]"
// an element has two bytes, but a place for a Node is made for each. It does not judge
// whether the document is JSON; finished reports whether all its brackets and texts are
// closed.
func scanDocument(doc []byte) (finished bool, err error) {
	var (
		open  []scanned // what is not closed, the innermost last
		text  []byte    // the last one met
		key   []byte    // of the member whose value comes next
		bytes int       // that the lists take
	)
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; c {
		case '"':
			end := textEnd(doc, i+1)
			if end < 0 {
				return false, nil
			}
			text, i = doc[i+1:end], end
		case ':':
			key = text
		case '{', '[':
			if len(open) == maxNesting {
				return false, fmt.Errorf("it is nested deeper than %d levels", maxNesting)
			}
			v := scanned{list: c == '['}
			if v.list {
				v.key, v.elements = key, 1
				v.most, v.size = listLimits(string(key))
				bytes += v.size
			}
			open, key = append(open, v), nil
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			key = nil
		case ',':
			key = nil
			if len(open) == 0 || !open[len(open)-1].list {
				continue
			}
			in := &open[len(open)-1]
			bytes += in.size
			if in.elements++; in.elements > in.most {
				return false, fmt.Errorf("a list %q has more than %d elements", graphlimits.Shorten(string(in.key), 40), in.most)
			}
		}
		if bytes > maxDecodedBytes {
			return false, fmt.Errorf("its lists would take more than %d bytes of memory", maxDecodedBytes)
		}
	}
	return len(open) == 0, nil
}

// A scanned is a list or an object while it is being scanned.
type scanned struct {
	list     bool
	key      []byte
	elements int
	most     int // elements
	size     int // of an element in memory
}

const (
	maxNesting = 64
	// maxDecodedBytes is more than what dumps of graphlimits.Bytes come to that have all the
	// members of the elements of their lists.
	maxDecodedBytes = 5 * graphlimits.Bytes
)

// listLimits returns how many elements a list with the given key may have, and about
// how many bytes one takes. Anything else may be a list that is known under another
// spelling.
func listLimits(key string) (most, size int) {
	switch key {
	case "edges":
		return graphlimits.Edges, 272
	case "crossings":
		return graphlimits.Edges, 40
	case "stack":
		return graphlimits.Frames, 48
	case "hist":
		return buckets.Count, 8
	case "fine":
		return buckets.Parts * buckets.Count, 8
	case "wakers", "functions":
		return graphlimits.Wakers, 48
	case "starts":
		return graphlimits.Starts, 208
	case "spans":
		return graphlimits.Spans, 232
	case "path":
		return graphlimits.Path, 128
	case "timeline":
		return graphlimits.Timeline, 128
	case "slowest":
		return graphlimits.Slowest, 232
	case "notes":
		return graphlimits.Notes, 16
	case "sources":
		return graphlimits.Sources, 96
	case "places":
		return graphlimits.Places, 24
	case "loops":
		return graphlimits.Loops, 40
	case "resources":
		return graphlimits.Resources, 72
	case "refusals":
		return graphlimits.Resources, 24
	case "changes":
		return graphlimits.Resources, 32
	case "overruns":
		return graphlimits.Overruns, 120
	}
	return max(graphlimits.Nodes, graphlimits.Edges), 336
}

// textEnd returns where the text ends that begins at from, -1 if it does not.
func textEnd(doc []byte, from int) int {
	for i := from; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}
