package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestFlameGraphZoomAndSearch(t *testing.T) {
	src := shop()
	b := open(t, src, look{hash: "#tab=flame", still: true})
	b.until("document.querySelectorAll('.frame').length > 10")
	b.settle(src)
	frame := func(name string) string {
		return fmt.Sprintf("[...document.querySelectorAll('.frame')].find(f => f.getAttribute('aria-label').startsWith(%s))", quote(name+":"))
	}
	width := func(name string) float64 {
		t.Helper()
		return eval[float64](b, fmt.Sprintf("(%s)?.offsetWidth ?? 0", frame(name)))
	}
	all := width("all")
	if handle := width("web.(*conn).handle"); handle <= 0 || handle >= all {
		t.Errorf("handle is %g wide of %g", handle, all)
	}
	frames := eval[int](b, "document.querySelectorAll('.frame').length")
	eval[bool](b, frame("web.(*page).render")+".click() === undefined")
	b.until("document.querySelector('.crumbs').checkVisibility()")
	if got := width("web.(*page).render"); got < all-2 {
		t.Errorf("zoomed in, the frame is %g wide; want %g", got, all)
	}
	if n := eval[int](b, "document.querySelectorAll('.frame').length"); n >= frames {
		t.Errorf("%d frames after zooming in, %d before; want fewer", n, frames)
	}
	b.shot("zoomed")
	b.click(".crumbs button")
	b.until("!document.querySelector('.crumbs').checkVisibility()")

	b.focus(".frame[tabindex='0']")
	b.press("Home", "ArrowDown", "ArrowDown", "ArrowDown")
	b.until("document.activeElement.matches('.frame') && Number(document.activeElement.getAttribute('aria-level')) === 4")
	b.press("Enter")
	b.until("document.querySelector('.crumbs').checkVisibility()")
	if got := eval[float64](b, "document.activeElement.offsetWidth"); got < all-2 {
		t.Errorf("the frame with the focus is %g wide; want %g", got, all)
	}
	b.press("ArrowUp")
	testenv.Equal(t, eval[string](b, "document.activeElement.getAttribute('aria-level')"), "3", "level")
	b.press("Escape", "Escape", "Escape", "Escape")
	b.until("!document.querySelector('.crumbs').checkVisibility()")

	b.run(chromedp.SendKeys(".flame input[type=search]", "SESSIONS", chromedp.ByQuery))
	b.until("document.querySelectorAll('.frame.hit').length > 0")
	testenv.Contains(t, b.text(".found"), "%", "found")
	b.shot("searched")
	const label = "document.querySelector('.frame').getAttribute('aria-label')"
	cpu := eval[string](b, label)
	b.click(".flame input[value=wait]")
	b.until("location.hash.includes('metric=wait') && " + label + " !== " + quote(cpu))
}

// Frames are the same if their names are: the next answer may number functions otherwise.
func TestTheFocusStaysOnAFunction(t *testing.T) {
	src := shop()
	b := open(t, src, look{hash: "#tab=flame", still: true})
	const render = "[...document.querySelectorAll('.frame')].find(f => f.getAttribute('aria-label').startsWith('web.(*page).render:'))"
	b.until(render)
	b.settle(src)
	eval[bool](b, render+".focus() === undefined")
	eval[bool](b, "(document.querySelector('#ignore').value = 'sessions') && document.querySelector('#ignore').dispatchEvent(new Event('input'))")
	b.until("![...document.querySelectorAll('.frame')].some(f => f.getAttribute('aria-label').includes('sessions'))")
	if got := eval[string](b, "document.activeElement.getAttribute('aria-label') || document.activeElement.tagName"); !strings.HasPrefix(got, "web.(*page).render:") {
		t.Errorf("the focus is on %q; want it where it was", got)
	}
}

// When all of the flame graph is shown, Escape is for what else is open.
func TestEscapeLeavesTheFlameGraph(t *testing.T) {
	b := open(t, shop(), look{hash: "#tab=flame&node=0000000000000002", still: true})
	b.until("document.querySelectorAll('.frame').length > 10 && document.querySelector('#panel .close').checkVisibility()")
	b.press("g")
	b.until("document.activeElement.matches('.frame') && !document.querySelector('#tip').hidden")
	b.press("Escape")
	b.until("document.querySelector('#tip').hidden")
	b.press("Escape")
	b.until("!document.querySelector('#panel .close').checkVisibility()")
}
