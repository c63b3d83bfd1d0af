package bodies

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// sizes reads plain numbers.
func sizes(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// TestLimits: bodies with and without a length, over HTTP/1.1 and HTTP/2, up to the limit of their path and beyond.
func TestLimits(t *testing.T) {
	limits, wrong := New(10, []Config{{"/up/**", "20"}, {"/any/**", "0"}, {"/none.txt", "5"}}, sizes)
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	url := knottest.Serve(t, &knot.Server{MaxBody: -1, H2C: true, Handler: func(x *knot.Ctx) error {
		if answered, err := limits.Handle(x); answered {
			return err
		}
		text, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		return x.SendString(200, "text/plain", fmt.Sprint(len(text)))
	}})
	for i, transport := range []*http.Transport{{}, testenv.PlainHTTP2(t)} {
		client := &http.Client{Transport: transport}
		defer client.CloseIdleConnections()
		for _, c := range []struct {
			path   string
			size   int
			status int
		}{
			{"/", 0, 200}, {"/", 10, 200}, {"/", 11, 413}, {"/up/a", 20, 200}, {"/up/a", 21, 413}, {"/any/a", 100_000, 200},
			{"/x/../up/a", 20, 200}, {"/up/../a", 11, 413}, {"//none.txt", 6, 413}, {"/%6eone.txt", 6, 413},
			{"/up/..%2fa", 11, 413}, {"/up%2Fa", 11, 413}, // a backend may see another path: the smaller limit counts
		} {
			for _, chunked := range []bool{false, true} {
				var body io.Reader = strings.NewReader(strings.Repeat("x", c.size))
				if chunked {
					body = io.MultiReader(body) // without a length
				}
				resp, err := client.Post(url+c.path, "", body)
				if err != nil && c.status == 413 {
					continue // the connection ends, maybe before all was sent
				}
				testenv.Must(t, err, "%s", c.path)
				text := testenv.Need(io.ReadAll(resp.Body))(t)
				resp.Body.Close()
				what := fmt.Sprintf("HTTP/%d %s, %d bytes, chunked %v", i+1, c.path, c.size, chunked)
				testenv.Equal(t, resp.StatusCode, c.status, what)
				if c.status == 200 {
					testenv.Equal(t, string(text), fmt.Sprint(c.size), what)
				}
			}
		}
	}
}

// TestFaults: what is wrong with tables.
func TestFaults(t *testing.T) {
	_, wrong := New(10, []Config{{"", ""}, {"/a", "much"}, {"/a", "1"}}, sizes)
	testenv.Equal(t, len(wrong), 2)
	testenv.Equal(t, wrong[0][0].Key+" "+wrong[0][1].Key+" "+wrong[1][0].Key, "match max max")
	testenv.ErrorSays(t, wrong[0][1].Err, `as max = "64MB"`)
	_, wrong = New(10, make([]Config, Most+1), sizes)
	testenv.ErrorSays(t, wrong[Most][0].Err, "a site may have 100 limits")
}
