package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// shown counts, in the browser, the steps of all edges in the table.
func shown(b *tab) float64 {
	b.t.Helper()
	var sum float64
	for _, n := range numbers(b.t, column(b, "edges", "count")) {
		sum += n
	}
	return sum
}

func TestComparedWithAnEarlierMoment(t *testing.T) {
	src := shop()
	b := open(t, src, look{hash: "#tab=edges&base=start"})
	b.until("Number(document.querySelector('.track .at').max) >= 6000") // six seconds have passed for the program
	b.settle(src)
	all := shown(b)
	testenv.Contains(t, b.text(".caption"), "everything since the start", "caption")
	if eval[bool](b, "document.querySelector('.track .base').checkVisibility()") {
		t.Error("there is a moment to compare with, though none was chosen")
	}

	b.run(chromedp.SetValue("#period", "moment", chromedp.ByQuery))
	eval[bool](b, "document.querySelector('#period').dispatchEvent(new Event('change'))")
	b.until("document.querySelector('.track .base').checkVisibility() && document.querySelector('.caption').textContent.includes('since 03:11:46')")
	later := shown(b)
	b.focus(".track .base")
	b.press("ArrowRight", "ArrowRight", "ArrowRight")
	b.until("document.querySelector('.caption').textContent.includes('since 03:11:49')")
	three := shown(b)
	if !(all > later && later > three && three > 0) {
		t.Errorf("%g steps since the start, %g since 03:11:46, %g since 03:11:49; want fewer each time", all, later, three)
	}

	// What is shown is what the difference of the two snapshots says.
	b.focus(".track .at")
	b.press("Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
	b.until("document.querySelector('.caption').textContent.includes('Moment 03:11:50: what happened in the 1 s since 03:11:49')")
	prog := sample.Shop()
	var moments []*bgraph.Snapshot
	for range 5 {
		prog.Advance(1e9)
		s, err := prog.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		moments = append(moments, s)
	}
	want, err := bgraph.Diff(moments[3], moments[4])
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, e := range want.Edges {
		sum += float64(e.Count)
	}
	testenv.Equal(t, shown(b), sum, "steps shown; the difference")
	b.press("2")
	b.until("document.querySelector('#panel-nodes th[data-column=delta]')")
	if deltas := numbers(t, column(b, "nodes", "delta")); !slices.ContainsFunc(deltas, func(d float64) bool { return d != 0 }) {
		t.Errorf("± waiting: %v; want that something has changed", deltas)
	}
	b.press("l")
	b.until("document.querySelector('.caption').textContent.startsWith('Latest')")
}

func TestMarkAndStepThroughMoments(t *testing.T) {
	src := shop()
	b := open(t, src, look{})
	b.until("Number(document.querySelector('.track .at').max) >= 4000")
	b.focus("#tab-graph")
	const shows = "document.querySelector('.track .at').getAttribute('aria-valuetext')"
	b.press("[")
	b.until("document.querySelector('#status').dataset.level === 'paused'")
	first := eval[string](b, shows)
	b.press("[")
	b.until(shows + " !== " + quote(first)) // else at might be that of one step
	at := eval[string](b, shows)
	b.press("m")
	b.until("document.querySelector('#period').value === 'moment' && document.querySelector('.track .base').getAttribute('aria-valuetext') === " + quote(at))
	b.press("l")
	b.until("document.querySelector('#status').dataset.level === 'live' && document.querySelector('.caption').textContent.includes(" + quote("since "+at) + ")")
	b.click("#mark")
	b.until("document.querySelector('.track .base').getAttribute('aria-valuetext') !== " + quote(at))
}

func TestTheSourceGoesAwayAndComesBack(t *testing.T) {
	src := shop()
	b := open(t, src, look{})
	b.until("document.querySelectorAll('.node').length > 10")
	src.Fail("connect: connection <b>refused</b>")
	b.until("!document.querySelector('#banner').hidden && document.querySelector('#status').dataset.level === 'gone'")
	if got := b.text("#banner"); !strings.Contains(got, "sample shop has not answered since") || !strings.Contains(got, "connect: connection <b>refused</b>") {
		t.Errorf("banner %q; want which source, since when and why", got)
	}
	testenv.Equal(t, eval[int](b, "document.querySelectorAll('.node').length"), shopNodes, "nodes are left")
	b.shot("gone")
	src.Fail("")
	b.until("document.querySelector('#banner').hidden && document.querySelector('#status').dataset.level === 'live'")
	was := b.text(".caption")
	b.until("document.querySelector('.caption').textContent !== " + quote(was))
}

func TestBgdumpGoesAwayAndComesBack(t *testing.T) {
	needBrowser(t)
	src := shop()
	url, stop := serve(t, src, "127.0.0.1:0")
	b := openURL(t, url, look{})
	b.until("document.querySelectorAll('.node').length > 10")
	stop()
	b.until("!document.querySelector('#banner').hidden && document.querySelector('#banner').textContent.includes('bgdump itself does not answer')")
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	if ln, err := net.Listen("tcp", addr); errors.Is(err, syscall.EADDRINUSE) {
		t.Skip("the port is in use by now")
	} else if err == nil {
		ln.Close()
	}
	serve(t, src, addr)
	b.until("document.querySelector('#banner').hidden && document.querySelector('#status').dataset.level === 'live'")
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
	b.forgive("net::ERR_")
}

func TestTheProgramIsStartedAnew(t *testing.T) {
	src := shop()
	b := open(t, src, look{})
	b.until("Number(document.querySelector('.track .at').max) >= 3000")
	b.click("#mark")
	b.until("document.querySelector('#period').value === 'moment'")
	src.Restart()
	b.until("document.querySelector('#run').textContent.includes('process 4712')")
	b.until("document.querySelector('#said').textContent.includes('started anew') && document.querySelector('#period').value === 'last:60'")
	b.until(fmt.Sprintf("document.querySelectorAll('.node').length === %d", shopNodes))
}

func TestASourceThatDoesNotChange(t *testing.T) {
	src := shop()
	src.Advance(60e9)
	src.hold()
	b := open(t, src, look{})
	b.until("document.querySelector('#status').textContent.includes('Does not change')")
	if eval[bool](b, "document.querySelector('.track').checkVisibility()") {
		t.Error("there is a line of time with one moment")
	}
	testenv.Contains(t, b.text(".caption"), "since the start", "caption")
}

func TestTheAddressKeepsWhatIsShown(t *testing.T) {
	b := open(t, shop(), look{hash: "#tab=nodes&base=last:10&focus=conn&sort-nodes=name&color=wait"})
	b.until("document.querySelectorAll('#panel-nodes tbody tr').length > 5")
	if !slices.IsSortedFunc(column(b, "nodes", "name"), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		t.Error("the table is not sorted by name")
	}
	testenv.Equal(t, eval[string](b, "document.querySelector('#focus').value + ' ' + document.querySelector('#period').value"), "conn last:10", "filter and period")
	b.click("#panel-nodes tbody tr:nth-child(2)")
	b.until("document.querySelector('#panel .close').checkVisibility()")
	title := b.text("#panel h2")
	b.run(chromedp.Reload())
	b.until("document.body.classList.contains('ready') && document.querySelector('#panel h2').textContent === " + quote(title))
	if got := eval[string](b, "location.hash"); !strings.Contains(got, "focus=conn") || !strings.Contains(got, "node=") {
		t.Errorf("address %q", got)
	}
}
