package knot_test

import (
	"fmt"
	"net/http"

	"github.com/capriccio-go/capriccio/bgraph/graphhttp"
	"github.com/capriccio-go/capriccio/knot"
)

// Handlers that were written for net/http, and one that shows the blocking graph.
func ExampleAdaptHTTP() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello, %s!\n", r.PathValue("name"))
	})
	mux.Handle("/debug/bgraph/", graphhttp.Handler(nil))
	server := &knot.Server{Handler: knot.AdaptHTTP(mux)}
	fmt.Println(server.Close())
	// Output: <nil>
}
