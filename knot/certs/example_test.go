package certs_test

import (
	"context"
	"log"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/certs"
)

func Example() {
	keys, err := certs.Load(certs.Files{Pairs: []certs.Pair{{Cert: "site.crt", Key: "site.key"}}})
	if err != nil {
		log.Fatal(err)
	}
	go keys.Watch(context.Background(), time.Minute, func(err error) {
		if err != nil {
			log.Println("certificates:", err)
		}
	})
	server := &knot.Server{Addr: ":8443", TLS: keys.Config()}
	if err := capriccio.Run(context.Background(), server.Run); err != nil {
		log.Fatal(err)
	}
}
