package knot

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// TestEndpoints: each listener of a server speaks, answers and fails as its Endpoint says, or as the server does, and all
// have sockets to hand over.
func TestEndpoints(t *testing.T) {
	checkLeaks(t)
	says := func(text string) Handler {
		return func(x *Ctx) error {
			if x.Path() == "/none" {
				return Status(404)
			}
			return x.SendString(200, "text/plain", text)
		}
	}
	page := func(text string) func(*Ctx, int) (string, []byte) {
		return func(*Ctx, int) (string, []byte) { return "text/plain", []byte(text) }
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	opened, serves := make(chan []string, 1), make(chan struct{}, 4)
	s := &Server{ErrorLog: quietLog(), Handler: says("the server's"), ErrorPage: page("its page"), TLS: testenv.NewCA(t).Server(t)}
	s.Listening = func(net.Addr) { serves <- struct{}{} }
	s.Listeners = func() (all []net.Listener, err error) {
		var addrs []string
		for range cap(serves) {
			ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
			addrs = append(addrs, ln.Addr().String())
			all = append(all, ln)
		}
		opened <- addrs
		all[1] = &Endpoint{Listener: all[1]}
		all[2] = &Endpoint{Listener: all[2], TLS: testenv.NewCA(t).Server(t), Handler: says("by TLS"), ErrorPage: page("a page by TLS")}
		all[3] = &Endpoint{Listener: all[3], Handler: says("its own")}
		return all, nil
	}
	ended := make(chan error, 1)
	go func() {
		ended <- capriccio.Run(ctx, s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(2))
	}()
	addrs := <-opened
	for range cap(serves) {
		<-serves
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	for i, want := range []struct {
		scheme, text, page string
		version            int
	}{{"https", "the server's", "its page", 2}, {"http", "the server's", "its page", 1}, {"https", "by TLS", "a page by TLS", 2}, {"http", "its own", "its page", 1}} {
		resp, text := testenv.Get(t, client, want.scheme+"://"+addrs[i])
		_, errorPage := testenv.Get(t, client, want.scheme+"://"+addrs[i]+"/none")
		if text != want.text || errorPage != want.page || resp.ProtoMajor != want.version {
			t.Errorf("listener %d: %q, error page %q, HTTP/%d; want %+v", i, text, errorPage, resp.ProtoMajor, want)
		}
	}
	sockets := testenv.Need(s.Sockets())(t)
	testenv.AtLeast(t, len(sockets), cap(serves), "sockets to hand over")
	for _, f := range sockets {
		f.Close()
	}
	transport.CloseIdleConnections()
	stop()
	testenv.Check(t, <-ended, "Run")
}

// TestEndpointWithoutCertificate: it is not served, and the server ends with what is wrong.
func TestEndpointWithoutCertificate(t *testing.T) {
	s := &Server{ErrorLog: quietLog()}
	testenv.ErrorSays(t, s.Serve(&Endpoint{Listener: testenv.Listen(t), TLS: new(tls.Config)}), "certificate")
}
