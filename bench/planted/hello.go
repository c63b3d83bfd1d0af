package main

import "net/http"

func hello() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
}
