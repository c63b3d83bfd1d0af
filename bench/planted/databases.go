package main

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Queries of a database.

// slowDriver is a database whose queries take the time that they name.
type slowDriver struct{}

func (slowDriver) Open(string) (driver.Conn, error) { return slowConn{}, nil }

type slowConn struct{}

func (slowConn) Prepare(query string) (driver.Stmt, error) { return slowStmt(query), nil }
func (slowConn) Close() error                              { return nil }
func (slowConn) Begin() (driver.Tx, error)                 { return nil, driver.ErrSkip }

type slowStmt string

func (slowStmt) Close() error  { return nil }
func (slowStmt) NumInput() int { return 0 }

func (slowStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

func (s slowStmt) Query([]driver.Value) (driver.Rows, error) {
	d, err := time.ParseDuration(string(s))
	time.Sleep(d)
	return &slowRows{left: 3}, err
}

type slowRows struct{ left int }

func (r *slowRows) Columns() []string { return []string{"id"} }
func (r *slowRows) Close() error      { return nil }

func (r *slowRows) Next(to []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	to[0] = int64(r.left)
	return nil
}

func openDB(conns int) *sql.DB {
	sql.Register("slow", slowDriver{})
	db := must(sql.Open("slow", ""))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// loadUser queries a database that has 3 connections for all.
func loadUser(db *sql.DB) error {
	rows, err := db.Query("6ms") // cause of db-pool
	if err != nil {
		return err
	}
	return rows.Close()
}

func dbPool() http.Handler {
	db := openDB(3)
	return handler(func(*http.Request) error { return loadUser(db) })
}

// firstID keeps the connection of each hundredth query: it does not close the rows.
func firstID(db *sql.DB, n int64) (id int, err error) {
	rows, err := db.Query("1ms") // cause of db-rows
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
	return handler(func(*http.Request) error {
		_, err := firstID(db, n.Add(1))
		return err
	})
}

// author is queried for each post.
func author(db *sql.DB) (id int, err error) {
	return id, db.QueryRow("1ms").Scan(&id) // cause of n-plus-one-sql
}

func posts(db *sql.DB) error {
	for range 25 {
		if _, err := author(db); err != nil { // cause of n-plus-one-sql
			return err
		}
	}
	return nil
}

func nPlusOneSQL() http.Handler {
	db := openDB(100)
	return handler(func(*http.Request) error { return posts(db) })
}

// dbAmple has more connections to its database than clients.
func dbAmple() http.Handler {
	db := openDB(100)
	return handler(func(r *http.Request) error {
		rows, err := db.QueryContext(r.Context(), "2ms")
		if err == nil {
			for rows.Next() {
			}
			err = rows.Close()
		}
		return err
	})
}
