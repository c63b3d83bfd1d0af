package main

import (
	"context"
	"net"
	"net/http"
)

// deliver looks the name of its target up each time.
func deliver(ctx context.Context, names *net.Resolver) error {
	_, err := names.LookupHost(ctx, "hooks.example.org.") // cause
	return err
}

func slowDNS() http.Handler {
	backend := startRemote()
	names := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", backend.dns)
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, deliver(r.Context(), names)) })
}
