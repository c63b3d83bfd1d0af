package main

import "net/http"

// loadItem asks for one of the items of a basket.
func loadItem(backend *remote) error {
	return backend.get("500us") // cause
}

// loadBasket asks for its 30 items one after the other.
func loadBasket(backend *remote) (err error) {
	for range 30 {
		if err = loadItem(backend); err != nil { // cause
			break
		}
	}
	return err
}

func nPlusOne() http.Handler {
	backend := startRemote()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, loadBasket(backend)) })
}
