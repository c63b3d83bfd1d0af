module github.com/capriccio-go/capriccio/cmd/knot/acmetest

go 1.26.0

require (
	github.com/letsencrypt/pebble/v2 v2.10.0
	github.com/miekg/dns v1.1.73
)

require (
	github.com/go-jose/go-jose/v4 v4.1.3 // indirect
	github.com/letsencrypt/challtestsrv v1.4.2 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
