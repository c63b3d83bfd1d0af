package site

import (
	"io"
	"net/http"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// TestExcept: paths that a route leaves out are files, or for the next route, by whatever escapes they are asked for.
func TestExcept(t *testing.T) {
	says := func(text string) knot.Handler {
		return func(x *knot.Ctx) error { return x.SendString(200, "text/plain", text) }
	}
	s := &Site{Files: open(t, lay(t, map[string]string{"static/a": "file"})), Routes: []Route{
		{Match: pattern(t, "/**"), Except: []Pattern{pattern(t, "/static/**"), pattern(t, "/second/**")}, Handler: says("first")},
		{Match: pattern(t, "/second/**"), Handler: says("second")},
	}}
	url := knottest.Serve(t, &knot.Server{Handler: s.Handle})
	for path, want := range map[string]string{"/x": "first", "/static/a": "file", "/st%61tic/a": "file", "/x/../static/a": "file", "/second/x": "second", "/static": "first"} {
		resp := testenv.Need(http.Get(url + path))(t)
		body := testenv.Need(io.ReadAll(resp.Body))(t)
		resp.Body.Close()
		testenv.Equal(t, string(body), want, "%s", path)
	}
	http.DefaultClient.CloseIdleConnections()
}
