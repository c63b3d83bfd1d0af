// Package orcatest has tests of Knot's load reports with the types of github.com/cncf/xds/go and the clients of gRPC. It is a module
// of its own, so that no other program needs gRPC:
//
//	cd cmd/knot/orcatest && GOWORK=off go test ./...
package orcatest
