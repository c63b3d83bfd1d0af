module github.com/capriccio-go/capriccio/bench

go 1.26.0

replace github.com/capriccio-go/capriccio => ..

require (
	github.com/capriccio-go/capriccio v0.0.0
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe
	github.com/quic-go/quic-go v0.65.0
	golang.org/x/exp v0.0.0-20260908205506-85c1c2202aba
	golang.org/x/sys v0.50.0
)

require (
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)
