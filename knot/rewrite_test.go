package knot

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestRewrite: handlers see the new path and query, for one request; what was asked for stays in Target and the log.
func TestRewrite(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		var log testenv.Buffer
		adapted := AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.URL, " ", r.RequestURI)
		}))
		s := start(&Server{AccessLog: NewAccessLog(&log, LogCommon), Handler: func(x *Ctx) error {
			to := x.Header("X-To")
			if to != "" {
				if err := x.Rewrite(to); err != nil {
					return err
				}
			}
			if x.Header("X-Adapted") != "" {
				return adapted(x)
			}
			return x.SendString(200, "text/plain", fmt.Sprintf("%s|%s|%s|%s", x.Path(), x.RawPath(), x.Query(), x.Target()))
		}})
		defer s.stop()
		for _, c := range []struct{ to, adapted, want string }{
			{"/new", "", "200 /new|/new||/old%20x?q=1"},
			{"", "", "200 /old x|/old%20x|q=1|/old%20x?q=1"},
			{"/a%20b/../c?x=%2F&y", "", "200 /c|/a%20b/../c|x=%2F&y|/old%20x?q=1"},
			{"/a?x", "1", "200 /a?x /old%20x?q=1"},
			{"relative", "", "400"}, {"/a%zz", "", "400"}, {"/../a", "", "400"}, {"/a%00", "", "400"}, {"/a#b", "", "400"},
			{"/a\tb", "", "400"}, {"/a?b\tc", "", "400"},
		} {
			req := testenv.Need(http.NewRequest("GET", s.url()+"/old%20x?q=1", nil))(t)
			req.Header.Set("X-To", c.to)
			req.Header.Set("X-Adapted", c.adapted)
			resp := testenv.Need(http.DefaultClient.Do(req))(t)
			body := testenv.Need(io.ReadAll(resp.Body))(t)
			resp.Body.Close()
			got := fmt.Sprint(resp.StatusCode, " ", string(body))
			testenv.True(t, strings.HasPrefix(got, c.want), "%q: %s; want %s", c.to, got, c.want)
		}
		http.DefaultClient.CloseIdleConnections()
		s.stop()
		testenv.Must(t, s.AccessLog.Flush())
		testenv.Equal(t, strings.Count(log.String(), `"GET /old%20x?q=1 HTTP/1.1"`), 11, "what was asked for in the log:\n%s", &log)
	})
}

// TestRefusedKnowsNothing: the page of an error about what can't be parsed knows nothing of the request before it.
func TestRefusedKnowsNothing(t *testing.T) {
	page := func(x *Ctx, status int) (string, []byte) {
		return "text/plain", fmt.Appendf(nil, "%q %q %q %d", x.Path(), x.RawPath(), x.Query(), len((*inner)(x).Passed()))
	}
	s := startServer(t, &Server{ErrorPage: page, Handler: func(x *Ctx) error {
		(*inner)(x).PassHeader("X-User", "joe")
		return errors.Join(x.Rewrite("/secret?token=1"), x.SendString(200, "text/plain", "done"))
	}}, 1)
	p := s.dial()
	p.send(req("GET /") + "GET\r\n\r\n")
	p.wantStatus("200")
	_, body := p.response("GET")
	testenv.Equal(t, body, `"" "" "" 0`, "what the page knows")
}
