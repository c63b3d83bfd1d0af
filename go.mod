module github.com/capriccio-go/capriccio

go 1.25.0

require (
	golang.org/x/net v0.54.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
)
