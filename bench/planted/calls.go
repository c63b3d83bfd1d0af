package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// Calls of other servers.

// loadItem asks for one of the items of a basket.
func loadItem(backend *remote) error {
	return backend.get("500us") // cause of n-plus-one
}

// loadBasket asks for its 30 items one after the other.
func loadBasket(backend *remote) (err error) {
	for range 30 {
		if err = loadItem(backend); err != nil { // cause of n-plus-one
			break
		}
	}
	return err
}

func nPlusOne() http.Handler {
	backend := startRemote()
	return handler(func(*http.Request) error { return loadBasket(backend) })
}

func askPrices(b *remote) error { return b.get("2ms") }
func askStock(b *remote) error  { return b.get("3ms") }
func askAds(b *remote) error    { return b.get("60ms") } // cause of slow-backend

// gather asks three backends at once and waits for all.
func gather(b *remote) {
	var all sync.WaitGroup
	for _, ask := range []func(*remote) error{askPrices, askStock, askAds} {
		all.Go(func() { ask(b) })
	}
	all.Wait()
}

func slowBackend() http.Handler {
	b := startRemote()
	return handler(func(*http.Request) error {
		gather(b)
		return nil
	})
}

type shard struct {
	backend *remote
	takes   string
}

func (s *shard) ask(answers chan<- error) { answers <- s.backend.get(s.takes) }

// history is the slow one of two that each request asks, one after the other.
func (s *shard) history() error { return s.backend.get(s.takes) } // cause of slow-shard

func slowShard() http.Handler {
	b := startRemote()
	user, history := &shard{b, "1ms"}, &shard{b, "45ms"}
	return handler(func(*http.Request) error {
		answers := make(chan error, 1)
		go user.ask(answers)
		if err := <-answers; err != nil {
			return err
		}
		return history.history()
	})
}

// deliver looks the name of its target up each time.
func deliver(ctx context.Context, names *net.Resolver) error {
	_, err := names.LookupHost(ctx, "hooks.example.org.") // cause of slow-dns
	return err
}

func slowDNS() http.Handler {
	backend := startRemote()
	names := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", backend.dns)
	}}
	return handler(func(r *http.Request) error { return deliver(r.Context(), names) })
}

// fetchQuote shares one HTTP/2 connection of few streams with all other calls. In Go 1.26 calls that wait count as streams, so that
// hardly any gets on.
func fetchQuote(b *remote) error {
	return b.get("10ms") // cause of http2-slots
}

func http2Slots() http.Handler {
	b := startRemote()
	b.useHTTP2(&http.HTTP2Config{StrictMaxConcurrentRequests: true})
	if err := b.get("0"); err != nil { // so that the limit of the other side is known
		log.Fatal(err)
	}
	return handler(func(*http.Request) error { return fetchQuote(b) })
}

// http2 asks its backend over HTTP/2, as few times at once as that has streams.
func http2() http.Handler {
	b := startRemote()
	b.useHTTP2(nil)
	return handler(func(*http.Request) error { return b.get("1ms") })
}

// apiClient asks a fast backend once for each request.
func apiClient() http.Handler {
	b := startRemote()
	return handler(func(*http.Request) error {
		compute(300)
		return b.get("1ms")
	})
}

// fanOut asks four backends that are equally fast.
func fanOut() http.Handler {
	b := startRemote()
	return handler(func(*http.Request) error {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { b.get("1ms") })
		}
		all.Wait()
		return nil
	})
}

func proxy() http.Handler {
	b := startRemote()
	p := httputil.NewSingleHostReverseProxy(must(url.Parse(b.url)))
	p.Transport = b.client.Transport
	return p
}
