package main

import (
	"database/sql"
	"net/http"
)

// author is queried for each post.
func author(db *sql.DB) (id int, err error) {
	return id, db.QueryRow("1ms").Scan(&id) // cause
}

func posts(db *sql.DB) error {
	for range 25 {
		if _, err := author(db); err != nil { // cause
			return err
		}
	}
	return nil
}

func nPlusOneSQL() http.Handler {
	db := openDB(100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, posts(db)) })
}
