// Command fasthttp answers every request with a small fixed response, or with -root with the
// file below a folder that it names, on fasthttp's server as it comes.
package main

import (
	"flag"

	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"github.com/valyala/fasthttp"
)

func main() {
	root := flag.String("root", "", "folder of files")
	flag.Parse()
	handler := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(ready.Body)
	}
	if *root != "" {
		handler = (&fasthttp.FS{Root: *root}).NewRequestHandler()
	}
	ready.Fail(fasthttp.Serve(ready.Listen(), handler))
}
