package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A requestJSON is one of the slowest requests.
type requestJSON struct {
	Took   bgraph.Nanos `json:"took"`
	Rows   []string     `json:"rows"`
	Visits []visitJSON  `json:"visits"`
	Short  uint64       `json:"short,omitempty"`
}

type visitJSON struct {
	Row   int          `json:"row"`
	From  bgraph.Nanos `json:"from"`
	Wait  bgraph.Nanos `json:"wait,omitempty"`
	Ready bgraph.Nanos `json:"ready,omitempty"`
	Step  bgraph.Nanos `json:"step,omitempty"`
	Key   bgraph.Key   `json:"key"`
	Place string       `json:"place"`
	Path  string       `json:"path,omitempty"`
	By    string       `json:"by,omitempty"`    // what ended the wait
	ByRow int          `json:"byRow,omitempty"` // whose goroutine did, counted from 1
}

// slowestOf lists the slowest requests, as /api/state has them.
func slowestOf(s *bgraph.Snapshot) (all [][5]any) {
	for i := range s.Slowest {
		r := &s.Slowest[i]
		all = append(all, [5]any{clean(spanName(r), 200), clean(r.Kind, 20), r.Times.Sum, r.Begun, r.Open})
	}
	return all
}

// spanName is what handles a request, or the type of a task.
func spanName(r *bgraph.Span) string {
	if r.Kind == "request" {
		return funcname.Short(r.Name)
	}
	return r.Name
}

// serveRequest answers how the time of one of the slowest requests went by.
func (p *Page) serveRequest(w http.ResponseWriter, r *http.Request) {
	p.look()
	v, err := p.view(r)
	if err != nil && !errors.Is(err, errNothing) {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	text := r.URL.Query().Get("n")
	n, err := strconv.Atoi(text)
	if err != nil || v.at == nil || n < 1 || n > len(v.at.snap.Slowest) {
		fail(w, http.StatusBadRequest, fmt.Sprintf("n=%q; want the number of one of the slowest requests, from 1", clip(text)))
		return
	}
	reply(w, r, timelineOf(v.at.snap, &v.at.snap.Slowest[n-1]))
}

// timelineOf has a row for each goroutine that a visit is kept of, in the order in which they are met.
func timelineOf(s *bgraph.Snapshot, r *bgraph.Span) *requestJSON {
	out := &requestJSON{Took: r.Times.Sum, Rows: []string{}, Visits: []visitJSON{}}
	names := words.Names(s)
	rows := map[int]int{}
	for i := range r.Timeline {
		part := &r.Timeline[i]
		if part.Node == bgraph.KeyOverflow {
			out.Short += part.Count
			continue
		}
		row, ok := rows[part.Depth]
		if !ok {
			row = len(out.Rows)
			rows[part.Depth] = row
			out.Rows = append(out.Rows, "")
			if part.Depth == 0 {
				out.Rows[row] = clean(spanName(r), 200)
			}
		}
		visit := visitJSON{Row: row, From: part.From, Wait: part.Wait, Ready: part.Ready, Step: part.Step, Key: part.Node, Place: "begin of a goroutine"}
		if node := s.Node(part.Node); node != nil && part.Node > bgraph.KeyOverflow {
			visit.Place, visit.Path = clean(cmp.Or(node.Label, words.NameIn(names, part.Node)), 200), clean(words.Path(node), 500)
			if f := node.Place(); f != nil && visit.Path == "" {
				visit.Path = clean(words.At(f.Function, f.File, f.Line), 300)
			}
			if out.Rows[row] == "" {
				out.Rows[row] = clean(funcname.Short(outermost(node.Stack)), 200)
			}
		}
		if part.By.Function != "" {
			visit.By = clean(words.At(part.By.Function, part.By.File, part.By.Line), 300)
		}
		out.Visits = append(out.Visits, visit)
	}
	for i := range out.Rows {
		out.Rows[i] = cmp.Or(strings.TrimSpace(out.Rows[i]), "a goroutine")
	}
	out.findWakers()
	return out
}

// outermost is the outermost function of the program on a stack, or else of all.
func outermost(stack []bgraph.Frame) string {
	if f := words.Outermost(stack); f != nil {
		return f.Function
	}
	if len(stack) == 0 {
		return ""
	}
	return stack[len(stack)-1].Function
}

// findWakers finds the goroutine that ended each wait: what is known of it up to then ends at that moment.
func (out *requestJSON) findWakers() {
	for i := range out.Visits {
		v := &out.Visits[i]
		if v.By == "" {
			continue
		}
		end := v.From + v.Wait
		at := slices.IndexFunc(out.Visits, func(o visitJSON) bool { return o.Row != v.Row && o.From+o.Wait+o.Ready+o.Step == end })
		if at >= 0 {
			v.ByRow = out.Visits[at].Row + 1
		}
	}
}
