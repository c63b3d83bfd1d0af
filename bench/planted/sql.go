package main

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"time"
)

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
