// Command admit-listener is net/http behind netutil.LimitListener, doing the chores of the
// experiment admission. A client that is not accepted waits in the kernel.
package main

import (
	"net"
	"os"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"golang.org/x/net/netutil"
)

// conns is a number by hand: of 1 ms each they are a quarter of a second.
const conns = 256

func main() {
	ready.Fail(chores.RunHTTP(os.Args[1:], os.Stdout, chores.Limits{
		Listener: func(ln net.Listener) net.Listener { return netutil.LimitListener(ln, conns) },
	}))
}
