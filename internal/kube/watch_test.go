package kube

import (
	"context"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func change(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }

// A watching is a watch under way.
type watching struct {
	*apiServer
	watch *Watch[Pod]
	stop  context.CancelFunc
}

// newWatching begins a watch with a list of one pod.
func newWatching(t *testing.T) *watching {
	a := newAPIServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{a, a.pods(hurriedClock{}).Watch(ctx), cancel}
	a.next("first", "").end(200, podPage("5", "", ready("web-1", "10.0.0.1")))
	return w
}

// knows waits until the pods and the error are these.
func (w *watching) knows(pods, problem string) {
	w.t.Helper()
	testenv.Until(w.t, pods+problem, func() bool {
		now, err := w.watch.Now()
		return told(now) == pods && (err == nil) == (problem == "") && (err == nil || strings.Contains(err.Error(), problem))
	})
}

func TestWatchFollowsPods(t *testing.T) {
	w := newWatching(t)
	c := w.next("first", "watch=1&resourceVersion=5")
	w.knows("web-1=10.0.0.1", "")
	c.write(change("ADDED", ready("web-2", "10.0.0.2")))
	w.knows("web-1=10.0.0.1 web-2=10.0.0.2", "")
	c.write(change("MODIFIED", podText("web-1", "10.0.0.1", "Running", "False", "")) + change("DELETED", ready("web-2", "10.0.0.2")))
	w.knows("web-1=10.0.0.1:the pod is not ready (ContainersNotReady)", "")
	c.write(change("BOOKMARK", `{"kind":"Pod","metadata":{"resourceVersion":"31","creationTimestamp":null},"spec":{"containers":null},"status":{}}`))
	close(c.ended) // the time of the watch is over

	// The next one goes on where the last one ended, with the token as it is then.
	c = w.next("first", "watch=1&resourceVersion=31")
	w.file("token", "second")
	c.write(change("ADDED", ready("web-3", "10.0.0.3"))[:40])
	close(c.ended) // the API server restarts

	c = w.next("second", "watch=1&resourceVersion=31")
	c.write(change("ADDED", ready("web-3", "10.0.0.3")))
	w.knows("web-1=10.0.0.1:the pod is not ready (ContainersNotReady) web-3=10.0.0.3", "")
	w.stop()
	w.watch.Wait()
	close(c.ended)
	_, err := w.watch.Now()
	testenv.ErrorIs(t, err, context.Canceled)
}

// A server that has forgotten the version is asked for a list again, wherever it says so.
func TestWatchWhoseVersionIsForgotten(t *testing.T) {
	w := newWatching(t)
	c := w.next("first", "watch=1&resourceVersion=5")
	c.write(change("ERROR", failure(410, "too old resource version: 5 (99)")))
	close(c.ended)
	w.next("first", "").end(200, podPage("99", "", ready("web-4", "10.0.0.4")))
	w.next("first", "watch=1&resourceVersion=99").end(410, failure(410, "Expired"))
	w.knows("web-4=10.0.0.4", "")
	w.next("first", "").end(200, podPage("101", "", ready("web-5", "10.0.0.5")))
	c = w.next("first", "watch=1&resourceVersion=101")
	w.knows("web-5=10.0.0.5", "")
	w.stop()
	w.watch.Wait()
	close(c.ended)
}

// While the API server refuses, the pods stay known, and the reason is told until it answers again.
func TestWatchThatIsRefused(t *testing.T) {
	w := newWatching(t)
	w.next("first", "watch=1&resourceVersion=5").end(403, failure(403, "no"))
	c := w.next("first", "")
	w.knows("web-1=10.0.0.1", "may not watch pods in the namespace shop (403 Forbidden: no)")
	c.end(401, "")
	c = w.next("first", "")
	w.knows("web-1=10.0.0.1", "401 Unauthorized")
	w.file("token", "second")
	c.end(401, "")
	w.next("second", "").end(200, podPage("6", "", ready("web-1", "10.0.0.1"), ready("web-6", "10.0.0.6")))
	c = w.next("second", "watch=1&resourceVersion=6")
	w.knows("web-1=10.0.0.1 web-6=10.0.0.6", "")
	c.write("<html>\n")
	close(c.ended)
	c = w.next("second", "")
	w.knows("web-1=10.0.0.1 web-6=10.0.0.6", "the API server's watch cannot be read")
	w.stop()
	w.watch.Wait()
	close(c.ended)
}

func TestWatchOfAnEventThatIsTooLarge(t *testing.T) {
	w := newWatching(t)
	c := w.next("first", "watch=1&resourceVersion=5")
	c.write(`{"type":"ADDED","object":{"metadata":{"name":"` + strings.Repeat("x", mostEvent))
	next := w.next("first", "")
	w.knows("web-1=10.0.0.1", "a change in more than 4194304 bytes")
	w.stop()
	w.watch.Wait()
	close(c.ended)
	close(next.ended)
}
