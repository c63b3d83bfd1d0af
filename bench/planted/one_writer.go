package main

import (
	"net/http"
	"strings"
)

type order struct {
	lines string
	done  chan int
}

// settle computes for all orders, one after the other.
func settle(orders <-chan order) {
	for o := range orders { // cause
		o.done <- int(compute(700)) + len(strings.Fields(o.lines)) // cause
	}
}

// place waits until its order is settled.
func place(orders chan<- order) {
	o := order{"a b c", make(chan int)}
	orders <- o // cause
	<-o.done    // cause
}

func oneWriter() http.Handler {
	orders := make(chan order)
	go settle(orders)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		place(orders)
		answer(w, nil)
	})
}
