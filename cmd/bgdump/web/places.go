package web

import (
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A placeTable gives nodes small numbers, in the order in which they are first sent, so
// that names and stacks need to be sent once only.
type placeTable struct {
	mu    sync.Mutex
	era   uint64             // guarded by mu: of the history
	turns uint64             // guarded by mu: how often the table was begun anew
	ids   map[bgraph.Key]int // guarded by mu
	sent  []placeJSON        // guarded by mu: by id-1; only appended to
}

// longestChain is how many columns a chain of functions takes in a table.
const longestChain = 90

// maxPlaces bounds the table; it is begun anew when it is full.
const maxPlaces = 1 << 17

// A placeJSON is what does not change of a node.
type placeJSON struct {
	ID     int        `json:"id"`
	Key    bgraph.Key `json:"key"`
	Name   string     `json:"name"`
	Reason string     `json:"reason"`
	Label  string     `json:"label,omitempty"`
	Where  string     `json:"where,omitempty"` // file and line of the innermost function of the program
	Chain  string     `json:"chain,omitempty"` // the functions of the program that lead there, and what they call
	Path   string     `json:"path,omitempty"`  // the same with files and lines
	Stack  [][4]any   `json:"stack"`           // function, file, line, offset
}

// A numbering turns keys into ids for one answer.
type numbering struct {
	t     *placeTable
	s     *bgraph.Snapshot // where nodes are found
	names map[bgraph.Key]string
}

// begin locks the table for an answer about v. end unlocks it.
func (t *placeTable) begin(v *view) *numbering {
	t.mu.Lock()
	if t.era != v.era || len(t.sent) >= maxPlaces || t.ids == nil {
		t.era = v.era
		t.turns++
		t.ids, t.sent = make(map[bgraph.Key]int), nil
	}
	return &numbering{t: t, s: v.at.snap}
}

// end unlocks the table; it returns the places that were numbered after the first
// known, and the identity of the table.
func (n *numbering) end(era uint64, known int) (uint64, []placeJSON) {
	defer n.t.mu.Unlock()
	if era != n.t.turns || known < 0 || known > len(n.t.sent) {
		known = 0
	}
	return n.t.turns, n.t.sent[known:len(n.t.sent):len(n.t.sent)]
}

// id is the number of the node with a key; 0 if there is no such node.
func (n *numbering) id(k bgraph.Key) int {
	if id, ok := n.t.ids[k]; ok {
		return id
	}
	node := n.s.Node(k)
	if node == nil {
		return 0
	}
	id := len(n.t.sent) + 1
	n.t.ids[k] = id
	if n.names == nil {
		n.names = words.Names(n.s)
	}
	place := placeJSON{ID: id, Key: k, Name: clean(n.names[k], 300), Reason: clean(node.Reason, 100), Label: clean(node.Label, 300)}
	if f := node.Place(); f != nil {
		place.Where = clean(f.File[strings.LastIndexByte(f.File, '/')+1:], 100) + ":" + strconv.Itoa(f.Line)
	}
	place.Chain, place.Path = clean(words.Chain(node, longestChain), 300), clean(words.Path(node), 500)
	place.Stack = make([][4]any, 0, len(node.Stack))
	for i := range node.Stack {
		f := &node.Stack[i]
		place.Stack = append(place.Stack, [4]any{clean(f.Function, 500), clean(f.File, 500), f.Line, f.Offset})
	}
	n.t.sent = append(n.t.sent, place)
	return id
}

// clean makes a text fit to be shown in a line: what would hide or reorder what stands
// beside it, like a change of the direction of writing, becomes U+FFFD. Names come from
// dumps, which may have been forged.
func clean(text string, most int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, shorten(text, most))
}

// shorten keeps the first n runes, and of a text that had more says so.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "…"
		}
		n++
	}
	return text
}

// cleanLines is clean for a text of several lines.
func cleanLines(text string, most int) string {
	lines := strings.Split(shorten(text, most), "\n")
	for i, line := range lines {
		lines[i] = clean(strings.ReplaceAll(line, "\t", "    "), most)
	}
	return strings.Join(lines, "\n")
}

// key is the key of the node with an id.
func (t *placeTable) key(id int) (bgraph.Key, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id < 1 || id > len(t.sent) {
		return 0, false
	}
	return t.sent[id-1].Key, true
}
