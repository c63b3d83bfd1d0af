package browsertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The nodes of the sample that tests name.
const (
	shopNodes = 14 // with start and end
	shopEdges = 23
)

func shop() *ticking { return &ticking{Program: sample.Shop()} }

// shopAfterAMinute has taken each of its steps, also the rare ones, so that no edge comes that the
// graph would be arranged anew for.
func shopAfterAMinute() *ticking {
	src := shop()
	src.Advance(time.Minute)
	return src
}

func TestThePageShowsTheGraph(t *testing.T) {
	b := open(t, shop(), look{})
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
	b.until("document.querySelectorAll('.edge').length >= 20")
	testenv.Equal(t, b.text("#program"), "shop", "title")
	testenv.Contains(t, b.text("#run"), "process 4711 on web-3")
	b.until("document.querySelector('#status').dataset.level === 'live'")
	first := b.text(".figure strong")
	b.until("document.querySelector('.figure strong').textContent !== " + quote(first))
	sizes := eval[[]float64](b, "[...document.querySelectorAll('.node')].map(n => n.getBoundingClientRect()).map(r => r.width * r.height)")
	if slices.Max(sizes) < 2*slices.Min(sizes) {
		t.Errorf("the largest box has %.0f pixels, the smallest %.0f; want sizes by tasks waiting", slices.Max(sizes), slices.Min(sizes))
	}
	widths := eval[[]float64](b, "[...document.querySelectorAll('.edge:not(.idle) .line')].map(l => Number(l.getAttribute('stroke-width')))")
	testenv.AtLeast(t, slices.Max(widths), 3*slices.Min(widths), "lines are %v wide", widths)
}

// A new arrangement that comes when somebody is at work in the graph by then is not shown.
func TestNothingMovesUnderSomebodysHands(t *testing.T) {
	b := open(t, shop(), look{still: true})
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
	eval[bool](b, `(() => {
		const ask = window.fetch;
		window.fetch = async (url, ...rest) => {
			const answer = await ask(url, ...rest);
			if (url.startsWith('api/layout')) await new Promise(go => { window.letGo = go; });
			return answer;
		};
		return true;
	})()`)
	b.until("window.letGo") // edges have come
	const corners = "[...document.querySelectorAll('.node')].map(n => n.dataset.key + n.style.transform.replace(/ scale.*/, '')).join()"
	b.focus(".node")
	before, shown := eval[string](b, corners), b.text(".caption")
	eval[bool](b, "(window.letGo(), window.letGo = null, true)")
	b.until("document.querySelector('.caption').textContent !== " + quote(shown))
	if after := eval[string](b, corners); after != before {
		t.Errorf("boxes have moved:\n%s\n%s", before, after)
	}
	b.focus("#tab-graph")
	b.until("window.letGo") // now it may come
}

// Every trace, and every restart, is another graph to the page, but not to those who look at a part of it.
func TestZoomStaysWhenTheProgramIsStartedAnew(t *testing.T) {
	src := shop()
	b := open(t, src, look{still: true})
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
	const layouts = "performance.getEntriesByType('resource').filter(e => e.name.includes('api/layout')).length"
	const scale = "new DOMMatrix(document.querySelector('.stage').style.transform).a"
	b.focus(".node")
	b.press("+", "+")
	before, asked := eval[float64](b, scale), eval[int](b, layouts)
	src.Restart()
	b.until(fmt.Sprintf("document.querySelector('#run').textContent.includes('process 4712') && %s > %d", layouts, asked))
	shown := b.text(".caption")
	b.until("document.querySelector('.caption').textContent !== " + quote(shown))
	testenv.Equal(t, eval[float64](b, scale), before, "scale")
}

// What somebody has asked for is not left out because a request has failed.
func TestAnArrangementIsAskedForAgain(t *testing.T) {
	b := open(t, &ticking{Program: sample.Wide(60)}, look{still: true})
	b.until("document.querySelectorAll('.node').length >= 40")
	b.focus(".node")
	eval[bool](b, `(() => {
		const ask = window.fetch;
		window.fetch = (url, ...rest) => {
			if (!url.startsWith('api/layout')) return ask(url, ...rest);
			window.fetch = ask;
			return Promise.reject(new Error('lost'));
		};
		document.querySelector('#show').value = '80';
		return document.querySelector('#show').dispatchEvent(new Event('change'));
	})()`)
	b.until("document.querySelectorAll('.node').length === 62")
}

func TestTheColourCanBeSwitched(t *testing.T) {
	b := open(t, shop(), look{still: true})
	const colours = "[...document.querySelectorAll('.node')].map(n => getComputedStyle(n).backgroundColor).join()"
	b.until("document.querySelector('.legend')?.textContent.includes('CPU')")
	cpu := eval[string](b, colours)
	b.click("input[name=color][value=wait]")
	b.until("document.querySelector('.legend').textContent.includes('mean wait')")
	if wait := eval[string](b, colours); wait == cpu {
		t.Error("the colours are the same by CPU and by wait")
	}
	hot := eval[string](b, "[...document.querySelectorAll('.node')].sort((a, b) => b.className.match(/heat-(.)/)[1] - a.className.match(/heat-(.)/)[1])[0].textContent")
	if !strings.Contains(hot, "find") && !strings.Contains(hot, "readHead") && !strings.Contains(hot, "refresh") {
		t.Errorf("hottest by wait is %q; want one where tasks wait long", hot)
	}
	b.focus("#tab-graph")
	b.press("c")
	b.until("document.querySelector('.legend').textContent.includes('CPU')")
	testenv.Contains(t, b.text(".node.heat-5"), "render page", "hottest by CPU")
}

// column returns a column of the table in a view, as it is written.
func column(b *tab, view, id string) []string {
	b.t.Helper()
	return eval[[]string](b, fmt.Sprintf(`(() => {
		const at = [...document.querySelectorAll('#panel-%[1]s thead th')].findIndex(th => th.dataset.column === %[2]s);
		return [...document.querySelectorAll('#panel-%[1]s tbody tr')].map(tr => tr.children[at].firstChild.textContent);
	})()`, view, quote(id)))
}

func numbers(t *testing.T, texts []string) []float64 {
	t.Helper()
	var out []float64
	for _, text := range texts {
		v, err := strconv.ParseFloat(strings.NewReplacer(",", "", "−", "-", "+", "").Replace(text), 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func TestTablesAreSortedByClickAndByKeyboard(t *testing.T) {
	src := shop()
	b := open(t, src, look{hash: "#tab=nodes"})
	b.until(fmt.Sprintf("document.querySelectorAll('#panel-nodes tbody tr').length === %d", shopNodes))
	b.settle(src)
	sorted := func(id, how string) {
		t.Helper()
		b.until(fmt.Sprintf("document.querySelector('#panel-nodes th[data-column=%s]').getAttribute('aria-sort') === '%s'", id, how))
		testenv.Equal(t, eval[int](b, "document.querySelectorAll('#panel-nodes th[aria-sort=ascending], #panel-nodes th[aria-sort=descending]').length"), 1, "columns say that the table is sorted by them")
	}
	sorted("waiting", "descending")
	if waiting := numbers(t, column(b, "nodes", "waiting")); !slices.IsSortedFunc(waiting, func(a, b float64) int { return cmp.Compare(b, a) }) || waiting[0] == 0 {
		t.Errorf("waiting: %v; want the most first", waiting)
	}
	b.click("#panel-nodes th[data-column=rate] button")
	sorted("rate", "descending")
	down := numbers(t, column(b, "nodes", "rate"))
	b.click("#panel-nodes th[data-column=rate] button")
	sorted("rate", "ascending")
	up := numbers(t, column(b, "nodes", "rate"))
	if !slices.IsSorted(up) || slices.IsSorted(down) || up[len(up)-1] != down[0] {
		t.Errorf("per second: first %v, then %v; want one the reverse of the other", down, up)
	}

	b.focus("#panel-nodes th[data-column=name] button")
	b.press("Enter")
	sorted("name", "ascending")
	names := column(b, "nodes", "name")
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		t.Errorf("names: %v; want them in order", names)
	}
	if !eval[bool](b, "document.activeElement.closest('th')?.dataset.column === 'name'") {
		t.Error("the focus has left the column")
	}

	b.press("2", "3")
	b.until("document.querySelector('#panel-edges th[data-column=total]')?.getAttribute('aria-sort') === 'descending'")
	b.click("#panel-edges th[data-column=count] button")
	b.until("document.querySelector('#panel-edges th[data-column=count]').getAttribute('aria-sort') === 'descending'")
	if counts := numbers(t, column(b, "edges", "count")); len(counts) < 20 || counts[0] < counts[len(counts)-1] {
		t.Errorf("steps: %v; want the most first", counts)
	}
}

func TestFilter(t *testing.T) {
	b := open(t, shop(), look{})
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
	b.focus("#tab-graph")
	b.press("/", "a", "c", "c", "e", "s", "s", "L", "o", "g")
	b.until("document.querySelectorAll('.node').length === 3 && document.querySelector('#panel-graph').textContent.includes('accessLog')")
	b.press("Escape")
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
	testenv.Equal(t, eval[string](b, "document.activeElement.id"), "focus", "the focus is on")
	b.run(chromedp.SendKeys("#ignore", "conn|accept", chromedp.ByQuery))
	b.until("document.querySelectorAll('.node').length < 8")
	if got := b.text("#panel-graph .cards"); strings.Contains(got, "conn") || !strings.Contains(got, "refresh") {
		t.Errorf("nodes %q; want none with conn", got)
	}

	b.run(chromedp.SendKeys("#focus", "(", chromedp.ByQuery))
	b.until("!document.querySelector('#filter-error').hidden")
	if got := b.text("#filter-error"); !strings.Contains(got, "regular expression") || !strings.Contains(got, "missing closing )") {
		t.Errorf("%q; want what is wrong with the regular expression", got)
	}
	shown := b.text(".caption")
	b.until("document.querySelector('.caption').textContent !== " + quote(shown)) // it goes on
	b.forgive("400 (Bad Request)")
	b.run(chromedp.SendKeys("#focus", "refresh)", chromedp.ByQuery))
	b.until("document.querySelector('#filter-error').hidden")
}

func TestPause(t *testing.T) {
	b := open(t, shop(), look{hash: "#tab=nodes"})
	b.until("document.querySelectorAll('#panel-nodes tbody tr').length > 10")
	b.click("#pause")
	b.until("document.querySelector('#status').dataset.level === 'paused' && document.querySelector('#pause').getAttribute('aria-pressed') === 'true'")
	rows := strings.Join(column(b, "nodes", "now"), " ")
	moments := eval[float64](b, "Number(document.querySelector('.track .at').max)")
	b.until(fmt.Sprintf("Number(document.querySelector('.track .at').max) >= %f + 3000", moments))
	if again := strings.Join(column(b, "nodes", "now"), " "); again != rows {
		t.Errorf("paused, but\n%s became\n%s", rows, again)
	}
	b.press("p")
	b.until("document.querySelector('#status').dataset.level === 'live'")
	b.until("[...document.querySelectorAll('#panel-nodes tbody td:nth-child(2)')].map(td => td.textContent).join(' ') !== " + quote(rows))
}

func TestHistogramsOnHoverAndFocus(t *testing.T) {
	src := shop()
	b := open(t, src, look{hash: "#tab=nodes", still: true})
	b.until("document.querySelectorAll('#panel-nodes tbody tr').length > 10")
	b.settle(src)
	b.run(chromedp.ActionFunc(func(ctx context.Context) error { return hover(ctx, "#panel-nodes tbody tr:nth-child(2)") }))
	b.until("!document.querySelector('#tip').hidden && document.querySelectorAll('#tip .chart rect').length > 5")
	name := b.text("#panel-nodes tbody tr:nth-child(2) bdi")
	if got := b.text("#tip header"); !strings.HasPrefix(got, name) {
		t.Errorf("the description is of %q; want %q", got, name)
	}
	b.press("Escape")
	b.until("document.querySelector('#tip').hidden")

	b.focus("#panel-nodes th[data-column=oldest] button")
	b.press("Tab")
	b.until("document.activeElement.matches('#panel-nodes tbody tr') && !document.querySelector('#tip').hidden")
	b.press("ArrowDown")
	testenv.Equal(t, b.text("#tip header bdi"), eval[string](b, "document.activeElement.querySelector('bdi').textContent"), "the description is of")
	if !eval[bool](b, "document.activeElement.getAttribute('aria-describedby') === 'tip'") {
		t.Error("the row does not say that it is described")
	}

	b.press("1")
	b.until("document.querySelectorAll('.node').length > 10")
	b.until("document.querySelector('.node.heat-5')")
	b.run(chromedp.ActionFunc(func(ctx context.Context) error { return hover(ctx, ".node.heat-5") }))
	b.until("!document.querySelector('#tip').hidden && document.querySelector('#tip header').textContent.includes('render page')")
	b.press("g", "e")
	b.until("document.activeElement.matches('.edge') && document.querySelector('#tip').textContent.includes('CPU per step')")
}

func hover(ctx context.Context, selector string) error {
	var box *dom.BoxModel
	if err := chromedp.Dimensions(selector, &box, chromedp.ByQuery).Do(ctx); err != nil {
		return err
	}
	x, y := (box.Content[0]+box.Content[4])/2, (box.Content[1]+box.Content[5])/2
	return input.DispatchMouseEvent(input.MouseMoved, x, y).Do(ctx)
}
