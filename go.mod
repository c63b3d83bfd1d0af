module github.com/capriccio-go/capriccio

go 1.25.0

require (
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	golang.org/x/net v0.54.0
	golang.org/x/sys v0.46.0
)
