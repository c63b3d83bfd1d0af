package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/crypto/acme"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestACMEOrderWithoutLocation: an authority, as pebble, that takes its time to issue a certificate, and does not
// say again which order it was asked to finalize.
func TestACMEOrderWithoutLocation(t *testing.T) {
	cert, _ := selfSigned(t, "acme.test", 1)
	var authority *httptest.Server
	polls := 0
	authority = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := authority.URL
		order := func(status string) string {
			return fmt.Sprintf(`{"status":%q,"authorizations":[],"finalize":"%s/finalize/7","certificate":"%s/cert"}`, status, at, at)
		}
		w.Header().Set("Replay-Nonce", "n")
		answer := func(code int, location, body string) {
			if location != "" {
				w.Header().Set("Location", at+location)
			}
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
		switch r.URL.Path {
		case "/":
			answer(200, "", fmt.Sprintf(`{"newNonce":"%[1]s/nonce","newAccount":"%[1]s/account","newOrder":"%[1]s/new"}`, at))
		case "/nonce":
		case "/account":
			answer(201, "/account/1", `{"status":"valid"}`)
		case "/new":
			answer(201, "/order/7", order("ready"))
		case "/finalize/7":
			answer(200, "", order("processing"))
		case "/order/7":
			polls++
			answer(200, "", order("valid"))
		case "/cert":
			answer(200, "", string(cert))
		default:
			answer(404, "", "")
		}
	}))
	defer authority.Close()
	key := testenv.Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	tracker := &orderTracker{orders: make(map[string]string)}
	client := &acme.Client{DirectoryURL: authority.URL, Key: key, HTTPClient: &http.Client{Transport: tracker}}
	ctx := context.Background()
	testenv.Need(client.Register(ctx, &acme.Account{}, acme.AcceptTOS))(t)
	for i := range maxOrders { // given up
		tracker.orders[fmt.Sprint(i)] = ""
	}
	order := testenv.Need(client.AuthorizeOrder(ctx, acme.DomainIDs("acme.test")))(t)
	testenv.Equal(t, len(tracker.orders), 1, "orders are known")
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, []byte("request"), true)
	if err != nil || len(chain) != 1 || polls != 1 {
		t.Errorf("%d certificates, asked %d times, %v", len(chain), polls, err)
	}
	testenv.Equal(t, len(tracker.orders), 0, "orders are kept")
}
