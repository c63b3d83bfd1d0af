package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
	"github.com/gomodule/redigo/redis"
	"github.com/nats-io/nats.go"
	goredis "github.com/redis/go-redis/v9"
)

// libraries are the rows, in the order of docs/libraries.md.
var libraries = slices.Concat(plainLibraries, kvLibraries, sqlLibraries, webLibraries, rpcLibraries, localLibraries)

// plainLibraries are patterns of package net and sync alone.
var plainLibraries = []library{
	{name: "sync.Mutex", about: "one connection for all, a sync.Mutex held across its write and read", server: "peers", tasks: 5000, ops: 4, open: lockedRead},
	{name: "own connection", about: "32 tasks with a connection each: nothing is shared", server: "peers", tasks: 32, ops: 625, open: ownConnection},
	{name: "chan pool", about: "32 connections for all, in a Go channel", server: "peers", tasks: 5000, ops: 4, open: chanPool},
	{name: "task.Chan pool", about: "the same in a task.Chan: connections go from loop to loop", server: "peers", tasks: 5000, ops: 4, open: taskChanPool},
	{name: "netpoll.Pool", about: "at most 32 connections, those of each loop apart", server: "peers", tasks: 5000, ops: 4, open: poolOfLoops},
}

// echo writes a line to an echo server and reads it.
func echo(c net.Conn, buf []byte, n int) error {
	sent := fmt.Appendf(buf[:0], "%011d\n", n)
	if _, err := c.Write(sent); err != nil {
		return err
	}
	var got [12]byte
	for at := 0; at < len(got); {
		n, err := c.Read(got[at:])
		if err != nil {
			return err
		}
		at += n
	}
	return want(string(got[:]), string(sent))
}

func lockedRead(e *env) (*opened, error) {
	c, err := e.dial("tcp", e.Addr["echo"])
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return shared(func(n int) error {
		mu.Lock()
		defer mu.Unlock()
		return echo(c, nil, n)
	}, func() { c.Close() })
}

func ownConnection(e *env) (*opened, error) {
	return &opened{session: func(int) (session, error) {
		c, err := e.dial("tcp", e.Addr["echo"])
		if err != nil {
			return session{}, err
		}
		return session{do: func(i int) error { return echo(c, nil, i) }, close: func() { c.Close() }}, nil
	}}, nil
}

func chanPool(e *env) (*opened, error) {
	pool := make(chan net.Conn, 32)
	for range cap(pool) {
		c, err := e.dial("tcp", e.Addr["echo"])
		if err != nil {
			return nil, err
		}
		pool <- c
	}
	return shared(func(n int) error {
		c := <-pool
		defer func() { pool <- c }()
		return echo(c, nil, n)
	}, func() {
		for range cap(pool) {
			(<-pool).Close()
		}
	})
}

func taskChanPool(e *env) (*opened, error) {
	if e.Poller == "" {
		return chanPool(e)
	}
	pool := task.NewChan[net.Conn](32)
	for range 32 {
		c, err := e.dial("tcp", e.Addr["echo"])
		if err != nil {
			return nil, err
		}
		pool.Send(c)
	}
	return shared(func(n int) error {
		c, _ := pool.Recv()
		defer func() { pool.Send(c) }()
		return echo(c, nil, n)
	}, func() {
		for range 32 {
			c, _ := pool.Recv()
			c.Close()
		}
	})
}

func poolOfLoops(e *env) (*opened, error) {
	if e.Poller == "" {
		return chanPool(e)
	}
	pool := &netpoll.Pool{MaxConns: 32, MaxIdle: 32, Dial: func(context.Context) (net.Conn, error) {
		return e.dial("tcp", e.Addr["echo"])
	}}
	return shared(func(n int) error {
		c, err := pool.Get(context.Background())
		if err != nil {
			return err
		}
		err = echo(c, nil, n)
		pool.Put(c, err != nil)
		return err
	}, func() { pool.Close() })
}

var kvLibraries = []library{
	{name: "go-redis", about: "SET and GET, a pool of 100", server: "redis", tasks: 5000, ops: 4, open: openGoRedis},
	{name: "redigo", about: "SET and GET, a pool of 100", server: "redis", tasks: 5000, ops: 4, open: openRedigo},
	{name: "gomemcache", about: "Set and Get, 100 idle connections", server: "memcached", tasks: 5000, ops: 2, open: openMemcache},
	{name: "nats.go", about: "requests over one connection", server: "peers", tasks: 5000, ops: 4, open: openNATS},
}

func openGoRedis(e *env) (*opened, error) {
	client := goredis.NewClient(&goredis.Options{Addr: e.Addr["redis"], Dialer: e.dialer, PoolSize: 100, PoolTimeout: *limit})
	ctx := context.Background()
	return shared(func(n int) error {
		key, value := fmt.Sprint("go-redis", n), fmt.Sprint(n)
		if err := client.Set(ctx, key, value, 0).Err(); err != nil {
			return err
		}
		got, err := client.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		return want(got, value)
	}, func() { client.Close() })
}

func openRedigo(e *env) (*opened, error) {
	pool := &redis.Pool{MaxActive: 100, MaxIdle: 100, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", e.Addr["redis"], redis.DialNetDial(e.dial))
	}}
	return shared(func(n int) error {
		c := pool.Get()
		defer c.Close()
		key, value := fmt.Sprint("redigo", n), fmt.Sprint(n)
		if _, err := c.Do("SET", key, value); err != nil {
			return err
		}
		got, err := redis.String(c.Do("GET", key))
		if err != nil {
			return err
		}
		return want(got, value)
	}, func() { pool.Close() })
}

func openMemcache(e *env) (*opened, error) {
	client := memcache.New(e.Addr["memcached"])
	client.MaxIdleConns, client.Timeout, client.DialContext = 100, *limit, e.dialer
	return shared(func(n int) error {
		key, value := fmt.Sprint("memcache", n), fmt.Sprint(n)
		if err := client.Set(&memcache.Item{Key: key, Value: []byte(value)}); err != nil {
			return err
		}
		got, err := client.Get(key)
		if err != nil {
			return err
		}
		return want(string(got.Value), value)
	}, func() { client.Close() })
}

func openNATS(e *env) (*opened, error) {
	conn, err := nats.Connect("nats://"+e.Addr["nats"], nats.SetCustomDialer(dialer{e}))
	if err != nil {
		return nil, err
	}
	return shared(func(n int) error {
		value := fmt.Sprint(n)
		got, err := conn.Request("echo", []byte(value), time.Minute)
		if err != nil {
			return err
		}
		return want(string(got.Data), value)
	}, conn.Close)
}
