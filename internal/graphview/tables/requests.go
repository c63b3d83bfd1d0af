package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Requests of net/http and tasks of package runtime/trace: one by one, and by what they are.

// leastVisit is the share of the time of a request, or of all requests of a kind, from which on a place is written.
const leastVisit = 0.005

// placeName is the kind of wait at a node and where the program waits, with what leads there.
func placeName(s *bgraph.Snapshot, key bgraph.Key) string {
	n := s.Node(key)
	switch {
	case key == bgraph.KeyStart:
		return "begin of a goroutine"
	case n == nil:
		return key.String()
	case n.Label != "":
		return n.Reason + " " + n.Label
	}
	place := words.Path(n)
	if f := n.Place(); place == "" && f != nil {
		place = words.At(f.Function, f.File, f.Line)
	}
	return strings.TrimSpace(n.Reason + " " + place)
}

// briefPlace is placeName without the functions that lead there, but for the function that calls a helper of the program; the
// handler of a request does not count as such a caller.
func briefPlace(s *bgraph.Snapshot, key bgraph.Key, handler string) string {
	n := s.Node(key)
	if n == nil || n.Label != "" {
		return placeName(s, key)
	}
	path, _ := words.Frames(n, 2)
	if len(path) == 2 && path[0].Function == handler {
		path = path[1:]
	}
	if len(path) == 0 {
		return placeName(s, key)
	}
	return n.Reason + " " + words.At(path[0].Function, path[0].File, path[0].Line)
}

// by says what ended a wait.
func by(v *bgraph.PathPart) string {
	if v.By.Function == "" {
		return "network or time"
	}
	return words.At(v.By.Function, v.By.File, v.By.Line)
}

// WriteSlowest writes the requests and tasks that took longest, as many as most says: where each waited and for how long, what
// ended the waits, and what the goroutines that ended them did meanwhile. Lines are cut at width; 0: they are not cut. It does
// not park.
func WriteSlowest(w io.Writer, s *bgraph.Snapshot, most, width int) error {
	var b bytes.Buffer
	all := s.Slowest[:min(len(s.Slowest), most)]
	if len(all) == 0 {
		fmt.Fprintf(&b, "In %s no request of net/http and no task of package runtime/trace ended.\n", words.OrUnknown(s.Program.Name))
	}
	for i := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeSlow(&b, s, &all[i], width)
	}
	if len(all) > 0 && len(all) < most {
		fmt.Fprintf(&b, "\nThere were no more, or no more were kept.\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeSlow writes one request.
func writeSlow(b *bytes.Buffer, s *bgraph.Snapshot, r *bgraph.Span, width int) {
	fmt.Fprintf(b, "%s, a %s: %s, from %s of the trace on%s%s\n", spanName(r.Kind, r.Name), r.Kind, words.Duration(r.Times.Sum), words.Duration(r.Begun),
		map[bool]string{true: "; it began before the trace"}[r.Begun == 0], map[bool]string{true: "; it had not ended then"}[r.Open])
	t := &textTable[[]string]{columns: plainColumns(" from", " took", " times", " wait", " ready", " step", "where", "woken by"), width: cmp.Or(width, 1<<16)}
	known, short := bgraph.Nanos(0), 0
	for i := range r.Path {
		v := &r.Path[i]
		known += v.Total()
		if v.Node == bgraph.KeyOverflow {
			short += int(min(v.Count, 1<<30))
			continue
		}
		took := tookBelow(r.Path[i:])
		if words.Ratio(float64(took), float64(r.Times.Sum)) < leastVisit {
			short++
			continue
		}
		ended := ""
		if v.Count > 0 {
			ended = by(v)
		}
		t.rows = append(t.rows, []string{"+" + words.Duration(v.From), words.Duration(took), words.Count(v.Count), words.Duration(took - v.Ready - v.Step), words.Duration(v.Ready), words.Duration(v.Step),
			strings.Repeat("  ", v.Depth) + map[bool]string{true: "└ "}[v.Depth > 0] + placeName(s, v.Node), ended})
	}
	t.write(b)
	if short > 0 {
		fmt.Fprintf(b, "  … and %s that took little\n", words.Plural(short, "place"))
	}
	if unknown := r.Times.Sum - known; float64(unknown) > 0.01*float64(r.Times.Sum) {
		fmt.Fprintf(b, "  %s of the time is not known\n", words.Percent(words.Ratio(float64(unknown), float64(r.Times.Sum))))
	}
}

// tookBelow is the time of the first visit with those below it: the wait is as long as what others did meanwhile.
func tookBelow(visits []bgraph.PathPart) (took bgraph.Nanos) {
	for i := range visits {
		if i > 0 && visits[i].Depth <= visits[0].Depth {
			break
		}
		took += visits[i].Total()
	}
	return took
}

// spanName is what people call requests of a kind.
func spanName(kind, name string) string {
	if kind == "request" {
		return words.Clean(funcname.Short(name))
	}
	return words.Clean(name)
}

// requestSpans are the kinds of requests and tasks, what took most time in all first.
func requestSpans(s *bgraph.Snapshot) (all []bgraph.Span) {
	for _, sp := range s.Spans {
		if sp.Kind == "request" || sp.Kind == "task" {
			all = append(all, sp)
		}
	}
	slices.SortStableFunc(all, func(a, b bgraph.Span) int { return cmp.Compare(b.Times.Sum, a.Times.Sum) })
	return all
}

// WriteRequests writes the requests of net/http by what handles them, and the tasks of package runtime/trace by type:
// how many, how long they took, and at which places a request spends its time, with the waits there. limit is how many
// rows a table has, 0: all; width is that of Options. It does not park.
func WriteRequests(w io.Writer, s *bgraph.Snapshot, limit, width int) error {
	var b bytes.Buffer
	all := requestSpans(s)
	if len(all) == 0 {
		fmt.Fprintf(&b, "In %s no request of net/http and no task of package runtime/trace ended.\n", words.OrUnknown(s.Program.Name))
	}
	width = cmp.Or(width, defaultWidth)
	t := &textTable[[]string]{columns: plainColumns("handled by", "kind", " per s", " count", " mean", " median", " p99", " max"), limit: limit, width: width}
	for i := range all {
		sp := &all[i]
		t.rows = append(t.rows, []string{spanName(sp.Kind, sp.Name), sp.Kind, words.Rate(words.PerSecond(s, sp.Times.Count)), words.Count(sp.Times.Count),
			words.Duration(sp.Times.Mean()), words.QuantileText(&sp.Times, 0.5), words.QuantileText(&sp.Times, 0.99), words.Duration(sp.Times.Max)})
	}
	t.write(&b)
	for i := range all[:min(len(all), cmp.Or(limit, len(all)))] {
		writePlaces(&b, s, &all[i], limit, width)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writePlaces writes where a request of a kind spends its time on average, and where the goroutines are for which it waits.
func writePlaces(b *bytes.Buffer, s *bgraph.Snapshot, sp *bgraph.Span, limit, width int) {
	each := func(d bgraph.Nanos) string {
		return words.Duration(words.Nanos(words.Ratio(float64(d), float64(sp.Times.Count))))
	}
	columns := func() []column[[]string] {
		return plainColumns(" share", " took", " times", " wait", " ready", " step", "where")
	}
	own := &textTable[[]string]{title: "A " + strings.ToUpper(sp.Kind) + " OF " + spanName(sp.Kind, sp.Name) + " on average", limit: limit, width: width, columns: columns()}
	others := &textTable[[]string]{title: "  meanwhile, what it waited for", limit: limit, width: width, columns: columns()}
	known, short := bgraph.Nanos(0), 0
	for i := range sp.Path {
		p := &sp.Path[i]
		t := own
		if p.Depth > 0 {
			t = others
		} else {
			known += p.Total()
		}
		share := words.Ratio(float64(p.Total()), float64(sp.Times.Sum))
		if share < leastVisit {
			short++
			continue
		}
		t.rows = append(t.rows, []string{words.Percent(share), each(p.Total()), words.Rate(words.Ratio(float64(p.Count), float64(sp.Times.Count))), each(p.Wait), each(p.Ready), each(p.Step), placeName(s, p.Node)})
	}
	own.write(b)
	if unknown := sp.Times.Sum - known; float64(unknown) > 0.01*float64(sp.Times.Sum) {
		fmt.Fprintf(b, "  %s of the time is not known\n", words.Percent(words.Ratio(float64(unknown), float64(sp.Times.Sum))))
	}
	others.write(b)
	if short > 0 {
		fmt.Fprintf(b, "  … and %s that took little\n", words.Plural(short, "place"))
	}
}

// requestFact is a sentence about the requests that take most time in all, "" if there are none.
func requestFact(s *bgraph.Snapshot) string {
	all := requestSpans(s)
	if len(all) == 0 {
		return ""
	}
	sp := &all[0]
	text := fmt.Sprintf("%ss: %s/s of %s, %s each (-slowest 5)", sp.Kind, words.Rate(words.PerSecond(s, sp.Times.Count)), spanName(sp.Kind, sp.Name), words.Duration(sp.Times.Mean()))
	var most, others *bgraph.PathPart
	var ran, ready bgraph.Nanos
	for i := range sp.Path { // what took most is first
		p := &sp.Path[i]
		switch {
		case p.Depth > 0 && others == nil:
			others = p
		case p.Depth == 0 && p.Wait > p.Total()/2 && most == nil:
			most = p
		}
		if p.Depth == 0 {
			ran, ready = ran+p.Step, ready+p.Ready
		}
	}
	share := func(d bgraph.Nanos) float64 { return words.Ratio(float64(d), float64(sp.Times.Sum)) }
	switch {
	case most != nil && most.Total() >= max(ran, ready):
	case ready > ran:
		return text + fmt.Sprintf(": %s ready, but not running", words.Percent(share(ready)))
	default:
		return text + fmt.Sprintf(": %s running", words.Percent(share(ran)))
	}
	text += fmt.Sprintf(": %s at %s", words.Percent(share(most.Total())), briefPlace(s, most.Node, sp.Name))
	if times := words.Ratio(float64(most.Count), float64(sp.Times.Count)); times >= 1.5 {
		text += fmt.Sprintf(", %s times", words.Rate(times))
	}
	if others != nil && share(others.Total()) >= 0.5 {
		text += ", waiting for " + briefPlace(s, others.Node, sp.Name)
	}
	return text
}
