package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// contrasts finds texts that differ too little from their ground. Grounds that are
// partly transparent are mixed with what is below them.
const contrasts = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const known = new Map();
	const rgba = color => {
		if (!known.has(color)) {
			canvas.clearRect(0, 0, 1, 1);
			canvas.fillStyle = color;
			canvas.fillRect(0, 0, 1, 1);
			const d = canvas.getImageData(0, 0, 1, 1).data;
			known.set(color, [d[0], d[1], d[2], d[3] / 255]);
		}
		return known.get(color);
	};
	const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
	const ground = e => {
		const layers = [];
		for (let x = e; x; x = x.parentElement) {
			const c = rgba(getComputedStyle(x).backgroundColor);
			layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reverse().reduce((below, top) => over(top, below), rgba(getComputedStyle(document.body).backgroundColor));
	};
	const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
		const v = c[i] / 255;
		return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
	}, 0);
	const faint = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let texts = 0;
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.currentNode.textContent.trim() || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || e.closest('.unseen, .skip, .idle, .around, script, title, option')) continue;
		const style = getComputedStyle(e);
		texts++;
		const below = ground(e.closest('svg') ? e.closest('svg').parentElement : e);
		let ink = rgba(e.closest('svg') ? style.fill : style.color);
		const opacity = Number(style.opacity);
		ink = over([ink[0], ink[1], ink[2], ink[3] * opacity], below);
		const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
		const contrast = (a + 0.05) / (b + 0.05);
		if (contrast < 4.5) faint.push(contrast.toFixed(2) + ' ' + e.tagName + '.' + (e.getAttribute('class') || '') + ' in .' + (e.parentElement.getAttribute('class') || '') + ': ' + walker.currentNode.textContent.slice(0, 30));
	}
	return texts < 40 ? ['only ' + texts + ' texts'] : [...new Set(faint)].slice(0, 12);
})()`

// beyond finds what sticks out of the window.
const beyond = `(() => {
	const wide = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= wide) return [];
	return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > wide + 1 && !e.closest('.viewport, .scroll, #tabs, svg, .list'))
		.map(e => e.tagName + '#' + e.id + '.' + e.className).slice(0, 8).concat('the page is ' + document.documentElement.scrollWidth + ' wide');
})()`

func TestLooks(t *testing.T) {
	for _, width := range []int64{400, 820, 1600} {
		for _, dark := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d dark=%v", width, dark), func(t *testing.T) {
				src := shopAfterAMinute()
				b := open(t, src, look{width: width, height: 1000, dark: dark, still: true})
				b.until("Number(document.querySelector('.track .at').max) >= 12000")
				b.settle(src)
				for i, view := range []string{"graph", "nodes", "edges", "flame", "findings", "runtime"} {
					b.press(fmt.Sprint(i + 1))
					b.until(fmt.Sprintf("document.querySelector('#panel-%s').checkVisibility() && document.querySelector('#panel-%[1]s').textContent.length > 100", view))
					b.judge(view)
				}
				b.press("1", "c")
				b.until("document.querySelector('.legend').textContent.includes('wait')")
				b.judge("wait")
				b.clickNode()
				b.until("document.querySelectorAll('#panel .chart').length >= 2")
				b.judge("node")
				b.press("Escape", "?")
				b.until("document.querySelector('#help').open")
				b.judge("help")
			})
		}
	}
}

func (b *tab) judge(what string) {
	b.t.Helper()
	b.shot(what)
	if faint := eval[[]string](b, contrasts); len(faint) > 0 {
		b.t.Errorf("%s: too little contrast:\n%s", what, strings.Join(faint, "\n"))
	}
	if out := eval[[]string](b, beyond); len(out) > 0 {
		b.t.Errorf("%s: sticks out of the window:\n%s", what, strings.Join(out, "\n"))
	}
}

func TestThemeCanBeChosen(t *testing.T) {
	b := open(t, shop(), look{})
	ground := func() string { return eval[string](b, "getComputedStyle(document.body).backgroundColor") }
	light := ground()
	eval[bool](b, "(document.querySelector('#theme').value = 'dark') && document.querySelector('#theme').dispatchEvent(new Event('change'))")
	if got := ground(); got == light {
		t.Errorf("the ground is %s in the dark, too", got)
	}
	eval[bool](b, "(document.querySelector('#theme').value = 'auto') && document.querySelector('#theme').dispatchEvent(new Event('change'))")
	testenv.Equal(t, ground(), light, "the ground")
}

func TestWithoutMotion(t *testing.T) {
	const moving = "[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e); return s.animationName !== 'none' || s.transitionDuration.split(',').some(d => parseFloat(d) > 0); }).length"
	b := open(t, shop(), look{still: true})
	b.until("document.querySelectorAll('.node').length > 10")
	testenv.Equal(t, eval[int](b, moving), 0, "elements move though no motion is wanted")
	b = open(t, shop(), look{})
	b.until("document.querySelectorAll('.node').length > 10")
	if n := eval[int](b, moving); n == 0 {
		t.Error("nothing moves; want that the test can tell")
	}
}

// A graph that is larger than the window is seen as a whole at first, with the names of its nodes alone. A part that can be
// read comes with a finding, and a small map says which.
func TestNamesCanBeRead(t *testing.T) {
	b := open(t, &ticking{Program: sample.Wide(1000)}, look{still: true})
	b.until("document.querySelectorAll('.node').length >= 40 && document.querySelector('.node strong') && document.querySelector('#panel .findings button')")
	if !eval[bool](b, `(() => {
		const box = e => e.getBoundingClientRect(), frame = box(document.querySelector('.viewport'));
		const within = r => r.left >= frame.left && r.right <= frame.right && r.top >= frame.top && r.bottom <= frame.bottom;
		return [...document.querySelectorAll('.node')].every(e => within(box(e)) && e.querySelector('strong').checkVisibility() && !e.querySelector('span')?.checkVisibility());
	})()`) {
		t.Error("a node is not in view, or shows more than its name")
	}
	b.shot("all")
	b.click("#panel .findings button")
	const smallest = "Math.min(...[...document.querySelectorAll('.node > *, .labels text')].map(e => parseFloat(getComputedStyle(e).fontSize))) * new DOMMatrix(document.querySelector('.stage').style.transform).a"
	b.until(smallest + " >= 10.99")
	if !eval[bool](b, "getComputedStyle(document.querySelector('.minimap')).display === 'block' && document.querySelectorAll('.minimap g rect').length > 30") {
		t.Error("there is no small map")
	}
	b.shot("readable")
}

func TestAThousandNodes(t *testing.T) {
	b := open(t, &ticking{Program: sample.Wide(1000)}, look{})
	b.until("document.querySelectorAll('.node').length >= 40") // and what findings name
	testenv.Contains(t, b.text(".left-out"), " nodes drawn as one")
	b.shot("graph")
	// How long the page keeps the browser busy with each answer.
	b.run(performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks))
	busy := func(what string) (ms float64) {
		t.Helper()
		const answers = 2
		before := b.worked()
		for range answers {
			shown := b.text(".caption")
			b.until("document.querySelector('.caption').textContent !== " + quote(shown))
		}
		ms = (b.worked() - before) * 1000 / answers
		t.Logf("%s: %.0f ms of CPU time for each answer", what, ms)
		return ms
	}
	if ms := busy("40 nodes"); ms <= 0 || ms > 1000 {
		t.Errorf("%.0f ms of CPU time for each answer; want some, and less than a second", ms)
	}
	eval[bool](b, "(document.querySelector('#show').value = '500') && document.querySelector('#show').dispatchEvent(new Event('change'))")
	b.until("document.querySelectorAll('.node').length === 500")
	busy("500 nodes")
	b.shot("500")
	b.press("2")
	b.until("document.querySelectorAll('#panel-nodes tbody tr').length === 50 && document.querySelector('#more-nodes').textContent.includes('50 of 1,002 nodes')")
	eval[bool](b, "(document.querySelector('#show').value = '2000') && document.querySelector('#show').dispatchEvent(new Event('change'))")
	b.until("document.querySelectorAll('#panel-nodes tbody tr').length === 1002")
	busy("a table of 1,002 rows")
}

// worked is the CPU time in seconds that the page has taken, if Performance is enabled: on a busy
// machine no longer than on another.
func (b *tab) worked() float64 {
	b.t.Helper()
	var seconds float64
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			if m.Name == "TaskDuration" {
				seconds = m.Value
			}
		}
		return err
	}))
	return seconds
}

func TestExports(t *testing.T) {
	b := open(t, shop(), look{})
	b.until("document.querySelectorAll('.node').length > 10")
	b.click("#export summary")
	b.until("document.querySelector('#export a').checkVisibility()")
	b.shot("menu")
	got := eval[[]string](b, `Promise.all([...document.querySelectorAll('#export a')].map(async a => {
		const answer = await fetch(a.href);
		return a.dataset.format + ' ' + answer.status + ' ' + ((await answer.arrayBuffer()).byteLength > 100);
	}))`)
	testenv.Equal(t, len(got), 7, "exports")
	for _, line := range got {
		if !strings.HasSuffix(line, " 200 true") {
			t.Errorf("export %s; want 200 and some bytes", line)
		}
	}
	b.press("Escape")
	b.until("!document.querySelector('#export').open")
}
