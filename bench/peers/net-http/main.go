// Command net-http answers every request with a small fixed response, on the
// standard library's server as it comes, by HTTP/1.1 and HTTP/2 (both without TLS).
package main

import (
	"io"
	"net/http"

	"github.com/capriccio-go/capriccio/bench/peers/ready"
)

func main() {
	server := http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, ready.Body)
	})}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	ready.Fail(server.Serve(ready.Listen()))
}
