module github.com/capriccio-go/capriccio/bench

go 1.26.0

replace github.com/capriccio-go/capriccio => ..

require (
	github.com/capriccio-go/capriccio v0.0.0
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/quic-go/quic-go v0.65.0
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f
	golang.org/x/sys v0.48.0
)

require (
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
