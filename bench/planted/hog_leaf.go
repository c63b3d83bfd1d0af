package main

import "net/http"

// scramble never ends and has no frame on the stack.
func scramble() { // cause
	for x := uint64(1); x != 0; x = x*6364136223846793005 + 1442695040888963407 { // cause
	}
}

func hogLeaf() http.Handler {
	for range 3 {
		go scramble()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
}
