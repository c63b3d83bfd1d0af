module github.com/capriccio-go/capriccio/bench/suites

go 1.26.0

require github.com/capriccio-go/capriccio v0.0.0

require (
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/capriccio-go/capriccio => ../..
