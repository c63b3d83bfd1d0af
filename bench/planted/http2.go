package main

import "net/http"

// http2 asks its backend over HTTP/2, as few times at once as that has streams.
func http2() http.Handler {
	b := startRemote()
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	b.client = &http.Client{Transport: t}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, b.get("1ms")) })
}
