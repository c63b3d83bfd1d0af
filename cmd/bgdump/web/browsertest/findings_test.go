package browsertest

import (
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A capture is a graph kept in a file.
type capture struct {
	snapshot *bgraph.Snapshot
	name     string
}

func (c capture) Name() string { return c.name }

func (c capture) Snapshot(context.Context) (*bgraph.Snapshot, error) { return c.snapshot, nil }

func captures(t *testing.T) []capture {
	t.Helper()
	files, err := filepath.Glob("testdata/*.bgraph.gz")
	if err != nil || len(files) < 4 {
		t.Fatalf("captures: %v, %v; want at least four", files, err)
	}
	var all []capture
	for _, file := range files {
		packed, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		dump, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		s, err := bgraph.Decode(dump)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, capture{s, strings.TrimSuffix(filepath.Base(file), ".bgraph.gz")})
	}
	return all
}

var sizes = []look{{width: 1280, height: 800, still: true}, {width: 390, height: 844, dark: true, still: true}}

// eachCapture opens each capture on a screen and on a phone.
func eachCapture(t *testing.T, test func(t *testing.T, b *tab, c capture)) {
	for _, c := range captures(t) {
		for _, l := range sizes {
			t.Run(fmt.Sprintf("%s at %d", c.name, l.width), func(t *testing.T) {
				b := open(t, c, l)
				b.until("document.querySelectorAll('.node').length > 1")
				test(t, b, c)
			})
		}
	}
}

// canBeSeen has the function seen(e), which reports whether an element is in the window and nothing lies above its
// middle, and ends(f), the elements that a finding names: a box, or the boxes at both ends of a step.
const canBeSeen = `
	const seen = e => {
		const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
		const frame = document.querySelector('.viewport').getBoundingClientRect();
		const within = box.left >= frame.left && box.right <= frame.right && box.top >= Math.max(frame.top, 0) && box.bottom <= Math.min(frame.bottom, innerHeight);
		return within && e.contains(document.elementFromPoint(x, y));
	};
	const ends = keys => keys.map(key => document.querySelector('.node[data-key="' + key + '"]'));
`

// A click on any finding, in the panel or in the list, brings what it names into view, with its number and in the
// colour of its severity.
func TestAClickOnAFindingShowsWhatItNames(t *testing.T) {
	eachCapture(t, func(t *testing.T, b *tab, c capture) {
		found := lint.Find(c.snapshot)
		testenv.AtLeast(t, len(found), 1, "findings")
		b.shot("start")
		for i, f := range found {
			if f.Node == 0 {
				continue
			}
			keys := []string{f.Node.String()}
			mark := fmt.Sprintf("document.querySelector('.node[data-key=\"%v\"]')", f.Node)
			number := mark + ".dataset.mark"
			if f.IsStep() {
				keys = append(keys, f.To.String())
				mark = fmt.Sprintf("document.querySelector('.edge[data-edge=\"%v-%v\"]')", f.Node, f.To)
				number = "[...document.querySelectorAll('.badges text')].map(e => e.textContent).join(' ')"
			}
			for _, from := range []struct{ tab, click string }{
				{"1", fmt.Sprintf("#panel .findings li:nth-child(%d) button", i+1)},
				{"5", fmt.Sprintf("#panel-findings article:nth-child(%d) button.plain", i+1)},
			} {
				b.press("Escape", "0", from.tab)
				b.click(from.click)
				b.until(fmt.Sprintf("(() => { %s return ends(%s).every(seen); })()", canBeSeen, quoted(keys)))
				b.until(fmt.Sprintf("%s.classList.contains('marked-%s') && (%s).split(' ').includes('%d')", mark, f.Severity, number, i+1))
			}
			b.shot(fmt.Sprintf("finding-%d", i+1))
			if got := b.text("#panel h2"); !strings.Contains(f.Name, got) && !strings.Contains(got, c.snapshot.NameOf(f.Node)) {
				t.Errorf("the details are of %q, the finding of %q", got, f.Name)
			}
		}
	})
}

// All of the graph is seen when the page is opened, and each box has the steps to it and from it.
func TestTheGraphFitsWhenItIsOpened(t *testing.T) {
	eachCapture(t, func(t *testing.T, b *tab, _ capture) {
		if !eval[bool](b, `(() => {
			const frame = document.querySelector('.viewport').getBoundingClientRect();
			return frame.top < innerHeight / 2 && [...document.querySelectorAll('.node')].every(e => {
				const box = e.getBoundingClientRect();
				return box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom;
			});
		})()`) {
			t.Error("boxes are outside of the frame, or the frame begins in the lower half of the window")
		}
		alone := eval[[]string](b, `(() => {
			const drawn = [...document.querySelectorAll('.edge')].map(g => g.drawn);
			return [...document.querySelectorAll('.node')].map(e => e.drawn).filter(d => {
				const { edgesIn, edgesOut } = d.node, other = e => e.from.id !== e.to.id;
				return edgesIn.some(other) && !drawn.some(e => e.to === d.id && e.from !== d.id) || edgesOut.some(other) && !drawn.some(e => e.from === d.id && e.to !== d.id);
			}).map(d => d.node.name);
		})()`)
		testenv.EqualSlices(t, alone, nil, "boxes without an edge in or out that they have")
	})
}

// The switch, and its key, show who ends the waits of whom.
func TestWakes(t *testing.T) {
	var convoy capture
	for _, c := range captures(t) {
		if c.name == "convoy" {
			convoy = c
		}
	}
	b := open(t, convoy, look{still: true})
	b.until("document.querySelector('#wakes').checkVisibility() && document.querySelectorAll('.node').length > 1")
	testenv.Equal(t, eval[int](b, "document.querySelectorAll('.wakes g').length"), 0, "arrows of waking before they are wanted")
	b.click("#wakes")
	b.until("document.querySelectorAll('.wakes g').length > 0")
	testenv.Contains(t, b.text(".wakes g title"), "main.save")
	b.shot("wakes")
	b.press("w")
	b.until("document.querySelectorAll('.wakes g').length === 0 && !document.querySelector('#wakes').checked")
}

// The graph moves and grows with the mouse, two fingers, keys and buttons.
func TestPanAndZoom(t *testing.T) {
	b := open(t, captures(t)[0], look{still: true})
	b.until("document.querySelectorAll('.node').length > 1")
	at := func() []float64 {
		return eval[[]float64](b, "(m => [m.a, m.e, m.f])(new DOMMatrix(document.querySelector('.stage').style.transform))")
	}
	b.press("g")
	for _, c := range []struct {
		name string
		do   func()
		want func(before, after []float64) bool
	}{
		{"Shift and right", func() { b.press("Shift+ArrowRight") }, func(a, b []float64) bool { return b[1] < a[1] && b[0] == a[0] }},
		{"the button up", func() { b.click(".pad button") }, func(a, b []float64) bool { return b[2] > a[2] && b[0] == a[0] }},
		{"the button +", func() { b.click(".zoom button[aria-label^='Zoom in']") }, func(a, b []float64) bool { return b[0] > a[0] }},
		{"dragging a box", func() {
			eval[bool](b, dragging("[[x, y]]", "[[x + 40, y + 30]]"))
		}, func(a, b []float64) bool {
			return b[0] == a[0] && math.Abs(b[1]-a[1]-40) < 1 && math.Abs(b[2]-a[2]-30) < 1
		}},
		{"two fingers", func() {
			eval[bool](b, dragging("[[x, y], [x + 100, y]]", "[[x, y], [x + 50, y]]"))
		}, func(a, b []float64) bool { return math.Abs(b[0]/a[0]-0.5) < 0.01 }},
	} {
		before := at()
		c.do()
		if after := at(); !c.want(before, after) {
			t.Errorf("%s: scale and place were %v, then %v", c.name, before, after)
		}
	}
	testenv.Equal(t, b.text("#panel h2"), "Where to look first", "the panel after dragging")
}

// A click beside a box that is small counts as one on it; one far from all boxes does not.
func TestAClickBesideABox(t *testing.T) {
	b := open(t, captures(t)[0], look{still: true})
	b.until("document.querySelectorAll('.node').length > 1")
	b.press("g", "-", "-", "-", "-")
	at := eval[[]float64](b, `(() => {
		for (const node of document.querySelectorAll('.node[data-key]')) {
			const box = node.getBoundingClientRect(), y = (box.top + box.bottom) / 2;
			for (const x of [box.left - 9, box.right + 9]) {
				if (!document.elementFromPoint(x, y).closest('.node, .edge')) return [x, y];
			}
		}
	})()`)
	b.run(chromedp.MouseClickXY(at[0], at[1]))
	b.until("document.querySelectorAll('.node.selected').length === 1")
	b.press("Escape", "Escape") // a description, the details
	b.until("document.querySelectorAll('.node.selected').length === 0")
	at = eval[[]float64](b, `(box => [box.left + 3, box.top + 3])(document.querySelector('.viewport').getBoundingClientRect())`)
	b.run(chromedp.MouseClickXY(at[0], at[1]))
	testenv.Equal(t, eval[int](b, "document.querySelectorAll('.node.selected').length"), 0, "boxes chosen by a click far from all")
}

// dragging is a gesture of as many fingers as there are points, from where they are at first to where they are then.
func dragging(from, to string) string {
	return fmt.Sprintf(`(() => {
		const viewport = document.querySelector('.viewport'), node = document.querySelector('.node'), box = node.getBoundingClientRect();
		const x = box.x + box.width / 2, y = box.y + box.height / 2;
		viewport.setPointerCapture = () => {}; // there is no such finger
		const send = (type, points) => points.forEach(([clientX, clientY], i) => node.dispatchEvent(new PointerEvent(type, { bubbles: true, pointerId: 70 + i, pointerType: 'touch', buttons: type === 'pointerup' ? 0 : 1, clientX, clientY })));
		send('pointerdown', %s);
		send('pointermove', %s);
		send('pointerup', %[2]s);
		node.click();
		return true;
	})()`, from, to)
}

func quoted(texts []string) string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = quote(text)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
