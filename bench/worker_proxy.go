package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/capriccio-go/capriccio/knot"
)

// runReverseProxy is the standard library's proxy, to the address that is its argument. It ends with its standard input.
func runReverseProxy(args []string, out io.Writer) error {
	backend := &url.URL{Scheme: "http", Host: args[0]}
	handler := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(backend); p.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
	}
	return serveOnGoroutines(out, func(ln net.Listener) error { return http.Serve(ln, handler) })
}

// serveUpgraded answers as a program does that has been given the connection, and waits without a task.
func serveUpgraded(x *knot.Ctx) error {
	nc, _, err := x.Hijack()
	if err != nil {
		return err
	}
	u := &upgraded{nc, nc.(interface{ OnReadable(fn func()) error })}
	u.answer()
	return nil
}

type upgraded struct {
	nc   net.Conn
	wait interface{ OnReadable(fn func()) error }
}

func (u *upgraded) answer() {
	if _, err := io.WriteString(u.nc, taskResponse); err != nil || u.wait.OnReadable(u.read) != nil {
		u.nc.Close()
	}
}

func (u *upgraded) read() {
	var buf [256]byte
	if _, err := u.nc.Read(buf[:]); err != nil {
		u.nc.Close()
		return
	}
	u.answer()
}
