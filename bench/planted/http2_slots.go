package main

import (
	"log"
	"net/http"
)

// fetchQuote shares one HTTP/2 connection of few streams with all other calls. In Go 1.26 calls that wait count as streams, so that
// hardly any gets on.
func fetchQuote(b *remote) error {
	return b.get("10ms") // cause
}

func http2Slots() http.Handler {
	b := startRemote()
	t := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}
	t.Protocols.SetUnencryptedHTTP2(true)
	b.client = &http.Client{Transport: t}
	if err := b.get("0"); err != nil { // so that the limit of the other side is known
		log.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, fetchQuote(b)) })
}
