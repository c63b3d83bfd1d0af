package graphhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph/graphhttp"
)

// A program shows its graph to operators. A server serves the handler; here a recorder takes its place.
func Example() {
	err := capriccio.Run(context.Background(), func(context.Context) error {
		w := httptest.NewRecorder()
		graphhttp.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/debug/bgraph/?format=json", nil))
		body, err := io.ReadAll(w.Body)
		fmt.Println(w.Code, strings.Contains(string(body), "nodes"))
		return err
	}, capriccio.WithoutSignals())
	if err != nil {
		fmt.Println(err)
	}
	// Output: 200 true
}
