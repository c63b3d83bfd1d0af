package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
)

func proxy() http.Handler {
	b := startRemote()
	p := httputil.NewSingleHostReverseProxy(must(url.Parse(b.url)))
	p.Transport = b.client.Transport
	return p
}
