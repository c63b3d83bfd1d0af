package site

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// FuzzCookies: whatever stands before a cookie does not hide it, and what stands in another one's value is none.
func FuzzCookies(f *testing.F) {
	for _, seed := range []string{"", "a=b", `a="b; k=no`, "k", "k=", "=;=;;", "a=k=v", " k = no", "\tk=no", `k="quoted"`} {
		f.Add(seed)
	}
	got := make(chan []string, 1)
	url := knottest.Serve(f, &knot.Server{Handler: func(x *knot.Ctx) error {
		var values []string
		for v := range CookieValues(x, "k") {
			values = append(values, string(v))
		}
		got <- values
		return x.Send(204, "", nil)
	}})
	client := &http.Client{Transport: new(http.Transport)}
	f.Cleanup(client.CloseIdleConnections)
	f.Fuzz(func(t *testing.T, before string) {
		req := testenv.Need(http.NewRequest("HEAD", url, nil))(t)
		req.Header["Cookie"] = []string{before + "; k=own"}
		resp, err := client.Do(req)
		if err != nil {
			return // it is no header line
		}
		resp.Body.Close()
		if resp.StatusCode != 204 {
			return
		}
		values := <-got
		if len(values) == 0 || values[len(values)-1] != "own" {
			t.Errorf("%q hides a cookie: %q", before, values)
		}
		named := 0
		for one := range strings.SplitSeq(before+"; k=own", ";") {
			if name, _, _ := strings.Cut(one, "="); strings.Trim(name, " \t") == "k" {
				named++
			}
		}
		if len(values) > named {
			t.Errorf("%q: %q", before, values)
		}
	})
}
