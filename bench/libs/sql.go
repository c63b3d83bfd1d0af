package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lib/pq"
	_ "modernc.org/sqlite"
)

var sqlLibraries = []library{
	{name: "pgx", about: "a connection for each task", server: "postgres", tasks: 100, ops: 100, open: openPgx},
	{name: "pgx shared", about: "10 connections, a sync.Mutex for each", server: "postgres", tasks: 5000, ops: 2, open: openPgxShared},
	{name: "pgxpool", about: "20 connections", server: "postgres", tasks: 5000, ops: 2, open: openPgxPool},
	{name: "lib/pq", about: "through database/sql, 20 connections", server: "postgres", tasks: 5000, ops: 2, open: openPq},
	{name: "go-sql-driver", about: "MariaDB through database/sql, 20 connections", server: "mysql", tasks: 5000, ops: 2, open: openMySQL},
	{name: "modernc sqlite", about: "through database/sql, 4 connections, a file", local: true, tasks: 5000, ops: 2, open: openSQLite},
}

func (e *env) postgres() string {
	return "postgres://libs@" + e.Addr["postgres"] + "/postgres?sslmode=disable"
}

// pgx makes a connection.
func (e *env) pgx() (*pgx.Conn, error) {
	cfg := must(pgx.ParseConfig(e.postgres()))
	cfg.DialFunc = e.dialer
	return pgx.ConnectConfig(context.Background(), cfg)
}

// adds asks a server for n+1.
func adds(n int, row interface{ Scan(...any) error }) error {
	var got int
	err := row.Scan(&got)
	return answers(n+1)(got, err)
}

func openPgx(e *env) *opened {
	ctx := context.Background()
	return ownConn(e.pgx, func(conn *pgx.Conn, n int) error { return adds(n, conn.QueryRow(ctx, "select $1::int + 1", n)) },
		func(conn *pgx.Conn) { conn.Close(ctx) })
}

func openPgxShared(e *env) *opened {
	ctx := context.Background()
	type one struct {
		mu   sync.Mutex
		conn *pgx.Conn // guarded by mu
	}
	var conns [10]one
	for i := range conns {
		conns[i].conn = must(e.pgx())
	}
	return shared(func(n int) error {
		c := &conns[n%len(conns)]
		c.mu.Lock()
		defer c.mu.Unlock()
		return adds(n, c.conn.QueryRow(ctx, "select $1::int + 1", n))
	}, func() {
		for i := range conns {
			conns[i].conn.Close(ctx)
		}
	})
}

func openPgxPool(e *env) *opened {
	ctx := context.Background()
	cfg := must(pgxpool.ParseConfig(e.postgres() + "&pool_max_conns=20"))
	cfg.ConnConfig.DialFunc = e.dialer
	pool := must(pgxpool.NewWithConfig(ctx, cfg))
	return shared(func(n int) error { return adds(n, pool.QueryRow(ctx, "select $1::int + 1", n)) }, pool.Close)
}

// onDB runs a query of n+1 in a database with that many connections.
func onDB(db *sql.DB, query string, connections int) *opened {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return shared(func(n int) error { return adds(n, db.QueryRow(query, n)) }, func() { db.Close() })
}

// dialer is what lib/pq and nats.go ask for.
type dialer struct{ e *env }

func (d dialer) Dial(network, address string) (net.Conn, error) { return d.e.dial(network, address) }
func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.e.dialer(ctx, network, address)
}
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.e.dialer(ctx, network, address)
}

func openPq(e *env) *opened {
	connector := must(pq.NewConnector(e.postgres()))
	connector.Dialer(dialer{e})
	return onDB(sql.OpenDB(connector), "select $1::int + 1", 20)
}

func openMySQL(e *env) *opened {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", e.Addr["mysql"], "mysql"
	cfg.DialFunc = e.dialer
	return onDB(sql.OpenDB(must(mysql.NewConnector(cfg))), "select ? + 1", 20)
}

func openSQLite(e *env) *opened {
	file := filepath.Join(e.Dir, fmt.Sprintf("sqlite-%s-%d", e.Poller, e.Loops))
	db := must(sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(60000)&_pragma=synchronous(OFF)&_pragma=journal_mode(WAL)"))
	must(db.Exec("create table if not exists t (n integer)"))
	o := onDB(db, "select ? + 1", 4)
	reads := o.session
	o.session = func(task int) (session, error) {
		s, err := reads(task)
		query := s.do
		s.do = func(n int) error {
			if n%10 == 0 {
				_, err := db.Exec("insert into t values (?)", n)
				return err
			}
			return query(n)
		}
		return s, err
	}
	return o
}
