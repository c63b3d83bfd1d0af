package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/internal/graphview/export"
)

// metrics are what a flame graph may show, and in which unit.
var metrics = map[string]string{"cpu": "ns", "wait": "ns", "ready": "ns", "count": "", "heap": "bytes"}

// maxFrames bounds the frames of a flame graph that are sent. If there are more, frames
// too narrow to be seen are left out.
const maxFrames = 20_000

type flameJSON struct {
	Unit  string   `json:"unit"`
	Names []string `json:"names"`
	Root  []any    `json:"root"`
}

// A frame is a function on a path from the outermost.
type frame struct {
	name     int
	value    int64
	children map[int]*frame
}

// A flame is a tree of frames.
type flame struct {
	names  []string
	index  map[string]int
	frames int
	root   *frame
}

func (p *Page) serveFlame(w http.ResponseWriter, r *http.Request) {
	p.look()
	metric := cmp.Or(r.URL.Query().Get("metric"), "cpu")
	unit, ok := metrics[metric]
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("metric=%q; want cpu, wait, ready, count or heap", clip(metric)))
		return
	}
	v, err := p.view(r)
	if err != nil && !errors.Is(err, errNothing) {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	f := newFlame()
	if v.at != nil {
		var folded bytes.Buffer
		if err := export.WriteFolded(&folded, v.shown, metric); err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		f.read(folded.Bytes())
	}
	out := flameJSON{Unit: unit, Names: f.names}
	least := int64(1)
	if f.frames > maxFrames {
		least = max(f.root.value/(maxFrames/8), 1)
	}
	out.Root = f.root.list(least)
	reply(w, r, &out)
}

func newFlame() *flame {
	return &flame{names: []string{"all"}, index: make(map[string]int), frames: 1, root: &frame{}}
}

// read adds lines of the form "outermost;inner;innermost 123". Lines of another form
// and values that are not positive are passed over: a flame graph cannot show them.
func (f *flame) read(folded []byte) {
	for line := range strings.Lines(string(folded)) {
		line = strings.TrimRight(line, "\r\n")
		space := strings.LastIndexByte(line, ' ')
		if space < 0 {
			continue
		}
		value, err := strconv.ParseInt(line[space+1:], 10, 64)
		if err != nil || value <= 0 {
			continue
		}
		at := f.root
		at.value += value
		for name := range strings.SplitSeq(line[:space], ";") {
			at = f.child(at, name)
			at.value += value
		}
	}
}

func (f *flame) child(of *frame, name string) *frame {
	i, ok := f.index[name]
	if !ok {
		i = len(f.names)
		f.index[name] = i
		f.names = append(f.names, clean(name, 500))
	}
	if c := of.children[i]; c != nil {
		return c
	}
	if of.children == nil {
		of.children = make(map[int]*frame)
	}
	c := &frame{name: i}
	of.children[i] = c
	f.frames++
	return c
}

// list is [name, value, children...] without those below least.
func (fr *frame) list(least int64) []any {
	out := []any{fr.name, fr.value}
	children := make([]*frame, 0, len(fr.children))
	for _, c := range fr.children {
		if c.value >= least {
			children = append(children, c)
		}
	}
	slices.SortFunc(children, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.name, b.name))
	})
	for _, c := range children {
		out = append(out, c.list(least))
	}
	return out
}

type trackJSON struct {
	ID  []uint64 `json:"id"`
	Now []int64  `json:"now"`
	In  []uint64 `json:"in"`
	Out []uint64 `json:"out"`
}

// serveTrack answers how a node has changed.
func (p *Page) serveTrack(w http.ResponseWriter, r *http.Request) {
	p.look()
	id, err := strconv.Atoi(r.URL.Query().Get("place"))
	key, ok := p.places.key(id)
	if err != nil || !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("place=%q; want the id of a place", clip(r.URL.Query().Get("place"))))
		return
	}
	moments, _ := p.history.all()
	n := len(moments)
	out := trackJSON{make([]uint64, n), make([]int64, n), make([]uint64, n), make([]uint64, n)}
	for i, m := range moments {
		out.ID[i] = m.id
		if node := m.snap.Node(key); node != nil {
			out.Now[i], out.In[i], out.Out[i] = node.Now, node.Arrivals, node.Departures
		}
	}
	reply(w, r, &out)
}
