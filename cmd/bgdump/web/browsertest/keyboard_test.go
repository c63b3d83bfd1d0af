package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// stop describes what has the focus.
type stop struct {
	What    string  `json:"what"`
	Name    string  `json:"name"`
	Outline float64 `json:"outline"` // of it, or of what stands for it
	Seen    bool    `json:"seen"`
}

const describeFocus = `(() => {
	const e = document.activeElement, box = e.getBoundingClientRect();
	const marks = [e, e.nextElementSibling, e.parentElement].filter(Boolean).map(x => getComputedStyle(x));
	const hit = e.matches('.edge') ? [getComputedStyle(e.firstChild)] : [];
	return {
		what: e === document.body ? 'body' : e.id ? '#' + e.id : e.tagName.toLowerCase() + (e.getAttribute('class') ? '.' + e.getAttribute('class').split(' ')[0] : '') + (e.dataset.ref ? '[' + e.dataset.ref.split(' ')[0] + ']' : ''),
		name: e.getAttribute('aria-label') || e.labels?.[0]?.textContent.trim() || e.title || e.textContent.trim(),
		outline: Math.max(...marks.map(m => m.outlineStyle !== 'none' ? parseFloat(m.outlineWidth) : 0), ...hit.map(m => m.stroke !== 'none' && !m.stroke.endsWith(', 0)') ? 3 : 0)),
		seen: box.width > 0 && box.height > 0 && box.right > 0 && box.left < innerWidth,
	};
})()`

func TestEverythingIsReachedWithTheTabKey(t *testing.T) {
	for _, l := range []look{{}, {width: 400, height: 800, dark: true}} {
		for _, view := range []string{"graph", "nodes", "edges", "flame", "findings", "runtime"} {
			l.hash, l.still = "#base=start&tab="+view, true
			t.Run(fmt.Sprintf("%s at %d", view, l.width), func(t *testing.T) {
				walk(t, view, l)
			})
		}
	}
}

// walk goes through the page with the Tab key, once around.
func walk(t *testing.T, view string, l look) {
	src := shop()
	b := open(t, src, l)
	b.until("Number(document.querySelector('.track .at').max) >= 3000")
	b.settle(src)
	seen := map[string]bool{}
	var path []string
	for range 120 {
		b.press("Tab")
		s := eval[stop](b, describeFocus)
		if s.What == "body" {
			break
		}
		path = append(path, s.What)
		seen[s.What] = true
		if s.Name == "" {
			t.Errorf("%s has no name", s.What)
		}
		testenv.AtLeast(t, s.Outline, 2, "%s (%.40q) has the focus: its outline", s.What, s.Name)
		if !s.Seen {
			t.Errorf("%s (%.40q) has the focus but cannot be seen", s.What, s.Name)
		}
	}
	want := []string{"a.skip", "#pause", "#theme", "#help-button", "input.at", "#period", "#mark", "#tab-" + view, "#focus", "#ignore"}
	want = append(want, map[string][]string{
		"graph": {"input", "#show", "button.node", "button"}, "nodes": {"#show", "tr", "button"}, "edges": {"#show", "tr", "button"},
		"flame": {"div.frame", "input"}, "findings": {"button.plain[show]"}, "runtime": {"button.plain[sched]", "summary[report]"},
	}[view]...)
	for _, what := range want {
		if !seen[what] {
			t.Errorf("the Tab key does not reach %s; it reaches %s", what, strings.Join(path, " "))
		}
	}
	if len(path) >= 120 {
		t.Errorf("more than %d stops; want few", len(path))
	}
}

// openGraph shows the graph of the sample, and some seconds of its history.
func openGraph(t *testing.T) (*ticking, *tab) {
	t.Helper()
	src := shopAfterAMinute()
	b := open(t, src, look{still: true})
	b.until("document.querySelectorAll('.node').length > 10 && Number(document.querySelector('.track .at').max) >= 3000")
	return src, b
}

func TestTheGraphWithoutAMouse(t *testing.T) {
	src, b := openGraph(t)
	focused := func() string {
		return eval[string](b, "document.activeElement.getAttribute('aria-description') || document.activeElement.getAttribute('aria-label') || ''")
	}

	// To a node, along an edge, to its details, and back.
	b.press("1", "g")
	b.until("document.activeElement.matches('.node')")
	testenv.Contains(t, focused(), "readHead", "the graph begins at")
	b.press("ArrowUp")
	if got := focused(); !strings.HasPrefix(got, "start") {
		t.Errorf("above it is %q; want start", got)
	}
	b.press("ArrowDown", "e")
	b.until("document.activeElement.matches('.edge')")
	first := focused()
	b.press("e")
	if got := focused(); got == first || !strings.HasPrefix(got, "Step ") {
		t.Errorf("the next edge is %q after %q", got, first)
	}
	b.shot("edge")
	b.press("Enter")
	b.until("document.querySelector('#panel h2').textContent.includes('→') && document.querySelectorAll('#panel .chart').length > 0")
	b.press("ArrowDown")
	b.until("document.activeElement.matches('.node')")
	b.press("Enter")
	b.until("!document.querySelector('#panel h2').textContent.includes('→') && document.querySelector('#panel dl.figures')")
	b.press("d")
	b.until("document.activeElement.matches('#panel h2')")
	b.press("Tab", "Tab")
	b.until("document.activeElement.closest('#panel .content')")
	b.press("Escape")
	b.until("document.querySelector('#panel h2').textContent === 'Where to look first' && document.activeElement.matches('.node')")

	scale := func() float64 {
		return eval[float64](b, "new DOMMatrix(document.querySelector('.stage').style.transform).a")
	}
	b.settle(src)
	b.press("0")
	before := scale()
	b.press("+")
	if got := scale(); got <= before {
		t.Errorf("scale %g after zooming in, %g before", got, before)
	}
	b.press("0")
	testenv.Equal(t, scale(), before, "scale")
}

func TestTablesAndHelpWithoutAMouse(t *testing.T) {
	src, b := openGraph(t)
	b.focus("#tab-graph")
	b.press("ArrowRight")
	b.until("document.activeElement.id === 'tab-nodes' && document.querySelector('#panel-nodes').checkVisibility()")
	b.press("g", "End")
	b.until("document.activeElement === document.querySelector('#panel-nodes tbody').lastElementChild")
	b.press("Home", "ArrowDown", "Enter")
	b.until("document.querySelector('#panel .close').checkVisibility()")
	testenv.Equal(t, b.text("#panel h2"), eval[string](b, "document.querySelector('#panel-nodes tbody tr[aria-current]').querySelector('bdi').textContent"), "details of")

	// The help, and that single keys can be switched off.
	b.settle(src) // a row that is sorted elsewhere is described again
	b.press("?")
	b.until("document.querySelector('#help').open")
	b.shot("help")
	b.press("Escape")
	b.until("!document.querySelector('#help').open && document.querySelector('#panel .close').checkVisibility()")
	b.press("Escape", "Escape") // the description of the row that has the focus again, and the details
	b.until("!document.querySelector('#panel .close').checkVisibility()")
	b.press("?")
	b.until("document.querySelector('#help').open")
	eval[bool](b, "document.querySelector('#single-keys').click() === undefined")
	b.press("Escape", "3")
	b.until("!document.querySelector('#help').open")
	if eval[bool](b, "document.querySelector('#panel-edges').checkVisibility()") {
		t.Error("a single key did something though they are switched off")
	}
	eval[bool](b, "document.querySelector('#single-keys').click() === undefined")

	// A finding leads to where it was found.
	b.press("5")
	b.until("document.querySelector('#panel-findings .plain')")
	b.focus("#panel-findings .plain")
	b.press("Enter")
	b.until("document.activeElement.matches('#panel h2')")
}

func TestNothingIsNameless(t *testing.T) {
	b := open(t, shop(), look{})
	b.until("document.querySelectorAll('.node').length > 10")
	for i := range 6 {
		b.press(fmt.Sprint(i + 1))
		b.until(fmt.Sprintf("document.querySelectorAll('[role=tab]')[%d].getAttribute('aria-selected') === 'true'", i))
		var tree struct {
			Nodes []struct {
				Ignored bool `json:"ignored"`
				Role    struct {
					Value any `json:"value"`
				} `json:"role"`
				Name struct {
					Value any `json:"value"`
				} `json:"name"`
			} `json:"nodes"`
		}
		b.run(chromedp.ActionFunc(func(ctx context.Context) error {
			return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
		}))
		count := 0
		for _, n := range tree.Nodes {
			switch n.Role.Value {
			case "button", "link", "textbox", "searchbox", "combobox", "slider", "tab", "radio", "checkbox", "treeitem", "tree", "radiogroup", "tablist", "image", "region", "columnheader":
				count++
				if n.Name.Value == "" && !n.Ignored {
					t.Errorf("view %d: a %s has no name", i+1, n.Role.Value)
				}
			}
		}
		if count < 20 {
			t.Errorf("view %d: %d elements to look at; want many", i+1, count)
		}
	}
	if twice := eval[[]string](b, "[...document.querySelectorAll('[id]')].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i)"); len(twice) > 0 {
		t.Errorf("ids that are there twice: %v", twice)
	}
}

// What is made anew with each answer stays as somebody has left it.
func TestListsStayAsTheyAre(t *testing.T) {
	anew := func(b *tab, element string) {
		b.t.Helper()
		eval[bool](b, "(window.was = "+element+", true)")
		b.until("!window.was.isConnected")
	}
	b := open(t, shop(), look{width: 400, height: 800, hash: "#tab=runtime", still: true})
	const wide = "[...document.querySelectorAll('#panel-runtime .scroll')].find(e => e.scrollWidth > e.clientWidth && !e.querySelector('button'))"
	b.until(wide)
	eval[bool](b, "("+wide+".focus(), "+wide+".scrollLeft = 10) === 10")
	anew(b, wide)
	if left := eval[float64](b, wide+".scrollLeft"); left != 10 {
		t.Errorf("a table is scrolled aside by %g pixels; want 10, as it was", left)
	}
	if !eval[bool](b, "document.activeElement === "+wide) {
		t.Error("the table that is scrolled has lost the focus")
	}

	b = open(t, &ticking{Program: sample.Hostile()}, look{hash: "#tab=findings", still: true})
	const open = "document.querySelector('#panel-findings details[open]')"
	b.until("document.querySelector('#panel-findings summary')")
	b.click("#panel-findings summary")
	b.until(open)
	anew(b, open)
	if !eval[bool](b, open+" !== null") {
		t.Error("a stack is folded; want it open, as it was")
	}
}
