// Command fasthttp answers every request with a small fixed response, on
// fasthttp's server as it comes.
package main

import (
	"net"

	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"github.com/valyala/fasthttp"
)

func main() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		ready.Fail(err)
	}
	ready.Listening(ln.Addr())
	ready.Fail(fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(ready.Body)
	}))
}
