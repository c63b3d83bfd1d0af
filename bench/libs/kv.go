package main

import (
	"context"
	"fmt"
	"io"
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

// libraries are the rows, in the order of docs/results/libraries.md.
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
func echo(c net.Conn, n int) error {
	sent := fmt.Appendf(nil, "%011d\n", n)
	if _, err := c.Write(sent); err != nil {
		return err
	}
	got := make([]byte, len(sent))
	_, err := io.ReadFull(c, got)
	return answers(string(sent))(string(got), err)
}

func (e *env) dialEcho() (net.Conn, error) { return e.dial("tcp", e.Addr["echo"]) }

func lockedRead(e *env) *opened {
	c := must(e.dialEcho())
	var mu sync.Mutex
	return shared(func(n int) error {
		mu.Lock()
		defer mu.Unlock()
		return echo(c, n)
	}, func() { c.Close() })
}

func ownConnection(e *env) *opened {
	return ownConn(e.dialEcho, echo, func(c net.Conn) { c.Close() })
}

// poolConns is how many connections the pools here have.
const poolConns = 32

// pooled shares the connections of a pool.
func pooled(e *env, get func() net.Conn, put func(net.Conn)) *opened {
	for range poolConns {
		put(must(e.dialEcho()))
	}
	return shared(func(n int) error {
		c := get()
		defer put(c)
		return echo(c, n)
	}, func() {
		for range poolConns {
			get().Close()
		}
	})
}

func chanPool(e *env) *opened {
	pool := make(chan net.Conn, poolConns)
	return pooled(e, func() net.Conn { return <-pool }, func(c net.Conn) { pool <- c })
}

func taskChanPool(e *env) *opened {
	if e.Poller == "" {
		return chanPool(e)
	}
	pool := task.NewChan[net.Conn](poolConns)
	return pooled(e, func() net.Conn { return must(pool.Recv()) }, func(c net.Conn) { pool.Send(c) })
}

func poolOfLoops(e *env) *opened {
	if e.Poller == "" {
		return chanPool(e)
	}
	pool := &netpoll.Pool{MaxConns: poolConns, MaxIdle: poolConns, Dial: func(context.Context) (net.Conn, error) { return e.dialEcho() }}
	return shared(func(n int) error {
		c, err := pool.Get(context.Background())
		if err != nil {
			return err
		}
		err = echo(c, n)
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

// stored sets a value of its own in each operation, and gets it.
func stored(set func(key, value string) error, get func(key string) (string, error), stop func()) *opened {
	return shared(func(n int) error {
		key, value := fmt.Sprint("libs", n), fmt.Sprint(n)
		if err := set(key, value); err != nil {
			return err
		}
		return answers(value)(get(key))
	}, stop)
}

func openGoRedis(e *env) *opened {
	client := goredis.NewClient(&goredis.Options{Addr: e.Addr["redis"], Dialer: e.dialer, PoolSize: 100, PoolTimeout: *limit})
	ctx := context.Background()
	return stored(func(key, value string) error { return client.Set(ctx, key, value, 0).Err() },
		func(key string) (string, error) { return client.Get(ctx, key).Result() }, func() { client.Close() })
}

func openRedigo(e *env) *opened {
	pool := &redis.Pool{MaxActive: 100, MaxIdle: 100, Wait: true, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", e.Addr["redis"], redis.DialNetDial(e.dial))
	}}
	do := func(command string, args ...any) (string, error) {
		c := pool.Get()
		defer c.Close()
		return redis.String(c.Do(command, args...))
	}
	return stored(func(key, value string) error { _, err := do("SET", key, value); return err },
		func(key string) (string, error) { return do("GET", key) }, func() { pool.Close() })
}

func openMemcache(e *env) *opened {
	client := memcache.New(e.Addr["memcached"])
	client.MaxIdleConns, client.Timeout, client.DialContext = 100, *limit, e.dialer
	return stored(func(key, value string) error { return client.Set(&memcache.Item{Key: key, Value: []byte(value)}) },
		func(key string) (string, error) {
			got, err := client.Get(key)
			if err != nil {
				return "", err
			}
			return string(got.Value), nil
		}, func() { client.Close() })
}

func openNATS(e *env) *opened {
	conn := must(nats.Connect("nats://"+e.Addr["nats"], nats.SetCustomDialer(dialer{e})))
	return shared(func(n int) error {
		value := fmt.Sprint(n)
		got, err := conn.Request("echo", []byte(value), time.Minute)
		if err != nil {
			return err
		}
		return want(string(got.Data), value)
	}, conn.Close)
}
