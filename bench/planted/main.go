// Command planted is one of the programs of the experiment of that name: servers with one fault each, and healthy ones.
// It prints two addresses: of the server, and of net/http/pprof. Lines that end in
// "// cause of NAME" are where the fault of that program is.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
)

// A program starts what runs beside the requests and returns what serves them.
type program func() http.Handler

// programs has cgo-blocks, too, where there is cgo.
var programs = map[string]program{
	"lock-across-sleep": lockAcrossSleep, "lock-across-rpc": lockAcrossRPC, "lock-compute": lockCompute,
	"leak-send": leakSend, "leak-receive": leakReceive, "leak-context": leakContext, "leak-select": leakSelect,
	"one-consumer": oneConsumer, "one-writer": oneWriter, "worker-pool": workerPool, "limiter": limiter,
	"db-pool": dbPool, "db-rows": dbRows, "n-plus-one": nPlusOne, "n-plus-one-sql": nPlusOneSQL,
	"assist": assist, "fsync-lock": fsyncLock, "ticker-storm": tickerStorm, "select-default": selectDefault,
	"broadcast-storm": broadcastStorm, "long-reader": longReader, "slow-dns": slowDNS,
	"slow-backend": slowBackend, "slow-shard": slowShard, "http2-slots": http2Slots, "log-lock": logLock,
	"cpu-quota": cpuQuota, "hog": hog, "hog-leaf": hogLeaf,
	"assist-json": assistJSON, "sync-rwlock": syncRWLock, "timer-each": timerEach, "spin-flag": spinFlag,
	"broadcast-workers": broadcastWorkers, "reader-rpc": readerRPC, "dns-dial": dnsDial, "file-lock": fileLock,
	"conns-per-host": connsPerHost, "slog-lock": slogLock,

	"hello": hello, "counter": counter, "idle-pool": idlePool, "pipeline": pipeline, "cond-queue": condQueue,
	"cron": cron, "proxy": proxy, "files": files, "cache": cache, "long-poll": longPoll,
	"echo": echo, "batch": batch, "sleeper": sleeper, "fan-out": fanOut, "db-ample": dbAmple,
	"timeouts": timeouts, "buffered-log": bufferedLog, "api-client": apiClient, "http2": http2, "json": jsonAPI,
	"subscribers": subscribers, "flush": flush,
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == backendName {
		serveBackend()
	}
	if len(os.Args) != 2 || programs[os.Args[1]] == nil {
		log.Fatal("want the name of a program")
	}
	handler := programs[os.Args[1]]() // may take a while
	server, profiles := listen(), listen()
	fmt.Println(server.Addr(), profiles.Addr())
	go func() { log.Fatal(http.Serve(profiles, http.DefaultServeMux)) }()
	s := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	log.Fatal(s.Serve(server))
}

func listen() net.Listener { return must(net.Listen("tcp", "127.0.0.1:0")) }

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
