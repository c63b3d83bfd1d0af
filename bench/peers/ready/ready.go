// Package ready is the peers' side of the agreement with the driver: a server
// says where it listens on standard output, and ends when its standard input
// does.
package ready

import (
	"fmt"
	"io"
	"net"
	"os"
)

// Body is the response every server gives.
const Body = "Hello, World!"

// Listen listens on an address of its own, and tells the driver which that is.
func Listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		Fail(err)
	}
	Listening(ln.Addr())
	return ln
}

// Listening tells the driver the address and arranges for the process to end
// with standard input.
func Listening(addr fmt.Stringer) {
	fmt.Println("listening", addr)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
}

// Fail reports an error and ends the process.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
