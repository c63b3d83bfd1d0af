module github.com/capriccio-go/capriccio/bench

go 1.26.0

replace github.com/capriccio-go/capriccio => ..

require (
	github.com/capriccio-go/capriccio v0.0.0
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f
	golang.org/x/sys v0.48.0
)

require (
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
