package main

import (
	"database/sql"
	"net/http"
)

// loadUser queries a database that has 3 connections for all.
func loadUser(db *sql.DB) error {
	rows, err := db.Query("6ms") // cause
	if err != nil {
		return err
	}
	return rows.Close()
}

func dbPool() http.Handler {
	db := openDB(3)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, loadUser(db)) })
}
