package main

import (
	"database/sql"
	"net/http"
	"sync/atomic"
)

// firstID keeps the connection of each hundredth query: it does not close the rows.
func firstID(db *sql.DB, n int64) (id int, err error) {
	rows, err := db.Query("1ms") // cause
	if err != nil {
		return 0, err
	}
	rows.Next()
	err = rows.Scan(&id)
	if n%100 != 0 {
		rows.Close()
	}
	return id, err
}

func dbRows() http.Handler {
	db, n := openDB(20), new(atomic.Int64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := firstID(db, n.Add(1))
		answer(w, err)
	})
}
