package main

import "net/http"

// dbAmple has more connections to its database than clients.
func dbAmple() http.Handler {
	db := openDB(100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := db.QueryContext(r.Context(), "2ms")
		if err == nil {
			for rows.Next() {
			}
			err = rows.Close()
		}
		answer(w, err)
	})
}
