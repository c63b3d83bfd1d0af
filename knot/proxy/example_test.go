package proxy_test

import (
	"context"
	"log"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// A server that passes every request on to one of two programs.
func Example() {
	p, err := proxy.New(proxy.Config{
		Backends: []string{"http://127.0.0.1:3000", "unix:/run/app.sock"},
		Check:    &proxy.Check{Path: "/healthz"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	p.Start()
	server := &knot.Server{Handler: p.Handle}
	if err := capriccio.Run(context.Background(), server.Run); err != nil {
		log.Fatal(err)
	}
}
