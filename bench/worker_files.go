package main

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/certs"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"golang.org/x/sys/unix"
)

// runFileServer serves the files below a folder, with Knot or with net/http. It ends with
// its standard input.
func runFileServer(args []string, out io.Writer) {
	flags := flag.NewFlagSet("files", flag.ExitOnError)
	kind := flags.String("kind", "knot", "knot, net-http, adapted: the handler of net/http on Knot; direct: Knot past the page cache")
	root := flags.String("root", "", "folder")
	cache := flags.Int64("cache", 0, "bytes that Knot may keep contents of files in; 0: its default, negative: none")
	most := flags.Int("most", 0, "requests that net/http serves at a time; 0: all")
	pages := flags.String("fastcgi", "", "addresses of responders that make *.php, with commas between; with knot only")
	memory := flags.Int64("memory", math.MaxInt64, "bytes that the Go runtime tries to stay below")
	pem := flags.String("tls", "", "certificate and key of TLS, in one `file`; with knot and net-http only")
	flags.Parse(args)
	debug.SetMemoryLimit(*memory)
	handler := http.FileServer(http.Dir(*root))
	server := &knot.Server{}
	switch *kind {
	case "direct":
		d := &directFiles{root: *root, room: *cache, kept: map[string]*list.Element{}}
		server.Handler = d.serve
	case "knot":
		server = filesByKnot(*root, *pages, *pem, *cache)
	case "adapted":
		server.Handler = knot.AdaptHTTP(handler)
	case "net-http":
		if *most > 0 {
			handler = atMost(*most, handler)
		}
		serveOnGoroutines(out, func(ln net.Listener) error {
			if *pem != "" {
				return http.ServeTLS(ln, handler, *pem, *pem)
			}
			return http.Serve(ln, handler)
		})
		return
	default:
		check(fmt.Errorf("-kind=%q, want knot, net-http, adapted or direct", *kind))
	}
	serveKnot(must(oneLoop()), server, out)
}

// atMost lets requests wait while a number of others is being served.
func atMost(n int, handler http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		places <- struct{}{}
		defer func() { <-places }()
		handler.ServeHTTP(w, r)
	})
}

func filesByKnot(root, pages, pem string, cache int64) *knot.Server {
	files := must(knot.OpenFiles(root, knot.FilesConfig{CacheBytes: cache}))
	server := &knot.Server{Handler: files.Handle}
	if pem != "" {
		server.TLS = must(certs.Load(certs.Files{Pairs: []certs.Pair{{Cert: pem, Key: pem}}})).Config()
	}
	if pages != "" {
		php := must(proxy.New(proxy.Config{Backends: strings.Split(pages, ","), FastCGI: &proxy.FastCGI{Root: root, AnyScript: true}})) // no file is looked for, as by nginx
		server.Handler = func(x *knot.Ctx) error {
			if strings.HasSuffix(x.Path(), ".php") {
				return php.Handle(x)
			}
			return files.Handle(x)
		}
	}
	return server
}

const supportPage = 12 << 10

// runResponder makes pages for other servers, by FastCGI. It ends with its standard input.
func runResponder(_ []string, out io.Writer) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := make([]byte, 0, supportPage+sha256.Size)
		for sum := sha256.Sum256([]byte(r.URL.Path)); len(page) < supportPage; sum = sha256.Sum256(page) { // 2 MB hashed in all
			page = append(page, sum[:]...)
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", strconv.Itoa(supportPage))
		w.Write(page[:supportPage])
	})
	serveOnGoroutines(out, func(ln net.Listener) error { return fcgi.Serve(ln, handler) })
}

// supportUsers fetch a page of supportFiles files and one made by FastCGI, then think.
type supportUsers struct {
	random *rand.Rand
	left   []int // requests of the page under way, by user
}

const supportFiles = 5

func (u *supportUsers) think(user int) time.Duration {
	if u.left[user] > 0 {
		u.left[user]--
		return 0
	}
	u.left[user] = supportFiles
	return time.Duration(min(u.random.ExpFloat64(), 10) * float64(time.Second))
}

// runFetch is the client process of web: it asks for files of the tree and prints
// samples whose parameter is the number of clients. What is left of its arguments are files in
// place of the tree's, as PATH=BYTES: each is asked for as often as any other.
func runFetch(args []string, out io.Writer) {
	var cfg load.Config
	flags, parse := loadFlags("fetch", &cfg)
	folders := flags.Int("folders", 1, "folders of the tree")
	seed := flags.Uint64("seed", 1, "of the files that are asked for")
	flags.IntVar(&cfg.PerConn, "per-conn", 0, "requests on a connection; 0: all")
	support := flags.Float64("support", 0, "exponent of popularity: the clients are those of web-support")
	surge := flags.Bool("surge", false, "the tree and the clients are SURGE's")
	parse(args)
	tree, l := newWebTree(*folders), newRNG(*seed)
	random := rand.New(rand.NewPCG(*seed, 7))
	switch {
	case *surge:
		tree = newSurgeTree(*folders)
		cfg.Think = (&surgeUsers{random: random, left: make([]int, cfg.Conns)}).think
	case *support > 0:
		tree = newZipfTree(*folders, *support)
		cfg.Think = (&supportUsers{random: random, left: make([]int, cfg.Conns)}).think
	}
	var pages []fetched
	for n := range tree.files() {
		pages = append(pages, newFetched(tree.path(n), tree.size(n)))
	}
	draw := func() int { return tree.draw(&l) }
	if files := flags.Args(); len(files) > 0 {
		pages = nil
		for _, f := range files {
			path, size, _ := strings.Cut(f, "=")
			pages = append(pages, newFetched(path, must(strconv.ParseInt(size, 10, 64))))
		}
		draw = func() int { return l.below(len(pages)) }
	}
	asked, php := 0, newFetched("page.php", supportPage)
	cfg.Next = func() ([]byte, int64) {
		page := php
		if asked++; *support == 0 || asked%(supportFiles+1) > 0 { // one page in six, whichever client asks
			page = pages[draw()]
		}
		return page.request, page.size
	}
	fetchAndPrint(cfg, out)
}

// fetched is something to ask for.
type fetched struct {
	request []byte
	size    int64
}

func newFetched(path string, size int64) fetched {
	return fetched{fmt.Appendf(nil, "GET /%s HTTP/1.1\r\nHost: bench\r\n\r\n", path), size}
}

func fetchAndPrint(cfg load.Config, out io.Writer) {
	result := must(load.Run(cfg))
	if result.Elapsed <= 0 {
		check(errors.New("no time has passed"))
	}
	emit := emitAt(out, cfg.Conns)
	seconds, requested := result.Elapsed.Seconds(), float64(result.Requests)
	emit("rps", "req/s", requested/seconds)
	emit("throughput", "MB/s", float64(result.Bytes)/1e6/seconds)
	emit("p50", "ms", float64(result.P50)/1e6)
	emit("p99", "ms", float64(result.P99)/1e6)
	emit("mean", "ms", float64(result.Mean)/1e6)
	emit("longest", "ms", float64(result.Longest)/1e6)
	emit("unserved", "%", 100*float64(result.Unserved)/float64(cfg.Conns))
	emit("reopened", "%", 100*float64(result.Reopened)/requested)
	emit("cpu-per-request", "µs", float64(result.Usage.Server)/1e3/requested)
	emit("server-busy", "%", 100*result.Usage.Server.Seconds()/seconds)
	emit("client-busy", "%", 100*result.Usage.Client.Seconds()/seconds)
	emit("read-from-disk", "MB/s", float64(result.Fetched)/1e6/seconds)
}

// directFiles serves files past the page cache (O_DIRECT), and keeps the contents of those last asked for
// itself, as a server does that wants to decide what stays in memory. It is for one loop, so that no lock is
// needed: all fields are loop-private.
type directFiles struct {
	root string
	room int64                    // bytes left for contents
	kept map[string]*list.Element // of *directFile
	used list.List                // the last used first
}

type directFile struct {
	name string
	data []byte // with the room behind it that O_DIRECT needs
}

func (d *directFiles) serve(x *knot.Ctx) error {
	name := x.Path()
	if e := d.kept[name]; e != nil {
		d.used.MoveToFront(e)
		return x.Send(200, "text/plain", e.Value.(*directFile).data)
	}
	if !filepath.IsLocal(name[1:]) {
		return x.SendError(404)
	}
	f, err := aio.OpenFile(filepath.Join(d.root, name), os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return x.SendError(404)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := int(info.Size())
	data := aio.AlignedBuffer((size + aio.BufferAlignment - 1) / aio.BufferAlignment * aio.BufferAlignment)
	if n, err := f.ReadAt(data, 0); n < size {
		return err
	}
	d.keep(&directFile{name, data[:size]})
	return x.Send(200, "text/plain", data[:size])
}

// keep keeps a file, and lets those go that were not used for longest.
func (d *directFiles) keep(f *directFile) {
	if d.kept[f.name] != nil { // another task was faster
		return
	}
	d.kept[f.name] = d.used.PushFront(f)
	for d.room -= int64(cap(f.data)); d.room < 0; {
		last := d.used.Remove(d.used.Back()).(*directFile)
		delete(d.kept, last.name)
		d.room += int64(cap(last.data))
	}
}
