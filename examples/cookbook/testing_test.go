//go:build linux

package cookbook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/examples/cookbook"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// These tests are in docs/testing.md.

func TestOrders(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.PathValue("id")) })
	url := knottest.Serve(t, &knot.Server{Handler: knot.AdaptHTTP(mux)})
	response, err := http.Get(url + "/orders/7")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "7" {
		t.Errorf("%q, %v", body, err)
	}
}

func greet(x *knot.Ctx) error {
	return x.SendString(http.StatusOK, "text/plain", "Hello, "+x.Path()[1:]+"!\n")
}

func TestGreeting(t *testing.T) {
	response := knottest.Do(t, greet, httptest.NewRequest("GET", "/world", nil))
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

// fetch is of a site whose only page has no links.
func fetch(context.Context, string) (links []string, err error) { return nil, nil }

func TestCrawler(t *testing.T) {
	err := capriccio.Run(t.Context(), func(ctx context.Context) error {
		return cookbook.Crawl(ctx, "/", 2, fetch)
	}, capriccio.WithoutSignals())
	if err != nil {
		t.Fatal(err)
	}
}
