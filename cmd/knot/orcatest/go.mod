module github.com/capriccio-go/capriccio/cmd/knot/orcatest

go 1.26.0

replace github.com/capriccio-go/capriccio => ../../..

require (
	github.com/capriccio-go/capriccio v0.0.0-00010101000000-000000000000
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
)
