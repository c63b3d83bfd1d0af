package main

import (
	"encoding/json"
	"net/http"
)

// jsonAPI allocates as much as most do.
func jsonAPI() http.Handler {
	type item struct {
		Name  string
		Price float64
		Tags  []string
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := make([]item, 50)
		for i := range items {
			items[i] = item{"pear", 1.5, []string{"fruit", "green"}}
		}
		json.NewEncoder(w).Encode(items)
	})
}
