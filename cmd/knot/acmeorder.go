package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// maxOrders bounds the orders that are under way.
const maxOrders = 1000

// maxOrder bounds the description of an order, in bytes. It is a few hundred.
const maxOrder = 64 << 10

// An orderTracker adds to the answers of an ACME authority what x/crypto/acme before v0.56 takes for granted,
// though RFC 8555, 7.4, does not ask for it: the URL of the order that was finalized, as Location. It is safe
// from anywhere.
type orderTracker struct {
	mu     sync.Mutex
	orders map[string]string // URL of an order by the one that finalizes it; guarded by mu
}

// RoundTrip implements http.RoundTripper.
func (o *orderTracker) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost {
		return resp, err
	}
	location, url := resp.Header.Get("Location"), req.URL.String()
	switch {
	case location == "" && resp.StatusCode == http.StatusOK:
		o.mu.Lock()
		if location = o.orders[url]; location != "" {
			resp.Header.Set("Location", location)
			delete(o.orders, url)
		}
		o.mu.Unlock()
	case location != "" && resp.StatusCode == http.StatusCreated:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxOrder))
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
		var order struct{ Finalize string }
		if err == nil && json.Unmarshal(body, &order) == nil && order.Finalize != "" {
			o.mu.Lock()
			if len(o.orders) >= maxOrders { // given up, all of them
				clear(o.orders)
			}
			o.orders[order.Finalize] = location
			o.mu.Unlock()
		}
	}
	return resp, nil
}
