package main

import "net/http"

// apiClient asks a fast backend once for each request.
func apiClient() http.Handler {
	b := startRemote()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		compute(300)
		answer(w, b.get("1ms"))
	})
}
