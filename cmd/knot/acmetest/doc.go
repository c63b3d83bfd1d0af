// Package acmetest has tests of knot with Pebble, the small authority of Let's Encrypt for tests. It is a module of its own, so that
// no other program needs Pebble:
//
//	cd cmd/knot/acmetest && GOWORK=off go test ./...
package acmetest
