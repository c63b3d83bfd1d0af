// Package metrics gives what a knot server counts to Prometheus. Every number is read when it is
// asked for, and nothing is kept. It is used on plain goroutines.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// A Source is where the numbers come from.
type Source struct {
	Server   func() knot.Stats
	Files    func() knot.FilesStats
	TooOften func() uint64 // requests that limits turned away
	LogLost  func() uint64 // lines of the access log that were lost
	Backends func() []proxy.BackendStats
	Caches   func() (sum cache.Stats, any bool)
	Graph    func() *bgraph.Snapshot // nil while there is none
	Ready    func() error            // nil: new requests are welcome
	Traces   func() Traces           // nil while nothing is traced
}

// Traces are what is known of the requests that are traced.
type Traces interface {
	// Exemplars are some of them.
	Exemplars() []Exemplar
	// Spans are how many sampled spans have ended, and how many of these a collector has taken.
	Spans() (ended, sent uint64)
}

// An Exemplar is a request whose trace shows what is behind a bucket of the histogram.
type Exemplar struct {
	Took        time.Duration
	At          time.Time
	Trace, Span string
}

// Handler serves the numbers in the formats that Prometheus reads. OpenMetrics, which alone has exemplars, is among them while
// requests are traced: its names of buckets differ.
func Handler(s Source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		&collector{s},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	options := promhttp.HandlerOpts{Registry: registry, MaxRequestsInFlight: 4}
	plain := promhttp.HandlerFor(registry, options)
	options.Registry, options.EnableOpenMetrics = nil, true // what it counts is registered already
	open := promhttp.HandlerFor(registry, options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Traces() != nil {
			open.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("knot_"+name, help, labels, nil)
}

var (
	responses  = desc("responses_total", "Responses by the class of their status.", "class")
	errorsSent = desc("errors_total", "Responses that report an error, by status: those statuses that the server uses itself. Responses of backends count too.", "status")
	bodyBytes  = desc("response_body_bytes_total", "Bytes of response bodies.")
	durations  = desc("request_duration_seconds", "Time from the end of a request's head to the end of its response.")

	conns      = desc("connections", "Open connections.")
	connsLimit = desc("connections_limit", "Connections served at a time; 0: no limit.")
	accepted   = desc("connections_accepted_total", "Connections that were taken up.")
	evicted    = desc("connections_evicted_total", "Connections that were closed between two requests to make room for others.")

	malformed = desc("demands_malformed_total", "Lines about deadlines and importance that could not be read, and were ignored.")

	admitted = desc("admitted_total", "Requests that the scheduler let in.")
	deferred = desc("deferred_total", "Of those, the ones that had to wait for a resource first.")
	refused  = desc("refused_total", "Requests and connections that were turned away, by cause.", "cause")

	inUse       = desc("resource_in_use", "What is taken of a resource, in its unit.", "resource", "unit")
	limit       = desc("resource_limit", "What there is of a resource, as far as it is known.", "resource", "unit")
	utilisation = desc("resource_utilisation", "What is taken of a resource, in parts of what may be.", "resource")
	scarcest    = desc("utilisation", "What is taken of the scarcest resource, in parts of what may be. 1: no more can be done.")
	state       = desc("resource_state", "1 for the state that a resource is in.", "resource", "state")
	ready       = desc("ready", "1: new requests are welcome, as /readyz says.")
	loops       = desc("loops", "Event loops: those that work get new tasks, as many as GOMAXPROCS says.", "state")
	tasks       = desc("tasks", "Tasks of a loop.", "loop")

	files            = desc("file_requests_total", "Requests for files by how they were answered.", "from")
	loads            = desc("file_cache_loads_total", "Contents read into memory.")
	evictions        = desc("file_cache_evictions_total", "What was dropped for others.", "kind")
	notKept          = desc("file_cache_refused_total", "Contents that were not worth dropping others for.")
	stale            = desc("file_cache_stale_total", "What was kept and had changed on disk.")
	cacheBytes       = desc("file_cache_bytes", "Memory that contents of files take.")
	cacheLimit       = desc("file_cache_limit_bytes", "Memory that they may take.")
	cachedFiles      = desc("file_cache_files", "Files whose contents are in memory.")
	openFiles        = desc("file_cache_open_files", "Files that are kept open.")
	backendResponses = desc("backend_responses_total", "Responses of a backend by the class of their status; 1xx counts tunnels.", "backend", "class")
	backendFailures  = desc("backend_failures_total", "Requests that could not be passed on, those included that another try has mended.", "backend", "cause")
	backendDials     = desc("backend_dials_total", "Connections to a backend that were made or tried.", "backend")
	backendQueued    = desc("backend_queued_total", "Requests that had to wait for one of the connections that there may be.", "backend")
	backendRetries   = desc("backend_retries_total", "Requests that were tried again after they had failed at this backend.", "backend")
	backendRequests  = desc("backend_requests", "Requests and tunnels that are at a backend, or wait for it.", "backend")
	backendTunnels   = desc("backend_tunnels", "Tunnels of those.", "backend")
	backendOver      = desc("backend_retries_over_budget_total", "Requests that were not tried again as too many others had been.", "backend")
	backendEjected   = desc("backend_ejected_total", "How often a backend was taken out, for its failures or by checks.", "backend")
	backendWeight    = desc("backend_weight", "What a backend counts for in the balance now.", "backend")
	backendMirrored  = desc("backend_mirrored_total", "Copies of requests that were sent to a backend.", "backend")
	backendDropped   = desc("backend_mirror_dropped_total", "Copies of requests that were not made; with the first backend that gets copies.", "backend")
	backendUp        = desc("backend_up", "1: it gets requests.", "backend")

	cached       = desc("cache_requests_total", "Requests for what a cache is for, by how they were answered: hit, stale, revalidated, joined (to another one that was under way), miss, passed (by the cache).", "how")
	cacheStored  = desc("cache_stored_total", "Responses that were put into a cache.")
	cacheEvicted = desc("cache_evicted_total", "Responses that were dropped for others.")
	cacheCorrupt = desc("cache_corrupt_files_total", "Files of a cache that were dropped, as they were not as they had been written.")
	cacheSent    = desc("cache_hit_bytes_total", "Bytes of bodies that came from a cache.")
	cacheEntries = desc("cache_entries", "Responses in caches.")
	cacheHeld    = desc("cache_bytes", "What they take.", "in")

	spans = desc("trace_spans_total", "Spans of traces that have ended and were sampled, and those of them that a collector has taken.", "what")

	logLost = desc("access_log_lost_lines_total", "Lines of the access log that were lost because it could not be written, or not fast enough.")
)

// States are those of a resource.
var States = []string{"low", "rising", "at limit"}

type collector struct{ Source }

// Describe implements prometheus.Collector: the metrics are not checked against a list, as some of
// them come and go.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := c.Server()
	for class, n := range s.Responses {
		if class > 0 {
			count(responses, n, strconv.Itoa(class)+"xx")
		}
	}
	for status, n := range s.Errors {
		count(errorsSent, n, strconv.Itoa(status))
	}
	count(bodyBytes, s.Bytes)
	traces := c.Traces()
	to <- histogram(&s, traces)
	if traces != nil {
		ended, sent := traces.Spans()
		count(spans, ended, "ended")
		count(spans, sent, "sent")
	}
	gauge(conns, float64(s.Conns))
	gauge(connsLimit, float64(s.MaxConns))
	count(accepted, s.Accepted)
	count(evicted, s.Evicted)
	count(refused, s.TurnedAway, "too many connections")
	count(refused, c.TooOften(), "the client asks too often")
	count(refused, s.Late, "its deadline has passed")
	count(malformed, s.Malformed)
	count(logLost, c.LogLost())
	c.collectBackends(count, gauge)
	if sum, any := c.Caches(); any {
		collectCaches(&sum, count, gauge)
	}
	gauge(ready, oneIf(c.Ready() == nil))
	c.collectFiles(count, gauge)
	if g := c.Graph(); g != nil {
		collectGraph(g, count, gauge)
	}
}

// oneIf is 1 if that is so, else 0.
func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

func histogram(s *knot.Stats, traces Traces) prometheus.Metric {
	d := &s.Durations
	buckets, sum := make(map[float64]uint64), uint64(0)
	for i, limit := range d.Limits {
		sum += d.Counts[i]
		buckets[limit.Seconds()] = sum
	}
	// The counters are read one after another: the whole must not be less than its parts.
	h := prometheus.MustNewConstHistogram(durations, max(d.Count, sum), d.Sum.Seconds(), buckets)
	if traces == nil {
		return h
	}
	var all []prometheus.Exemplar
	for _, e := range traces.Exemplars() {
		all = append(all, prometheus.Exemplar{Value: e.Took.Seconds(), Timestamp: e.At, Labels: prometheus.Labels{"trace_id": e.Trace, "span_id": e.Span}})
	}
	if len(all) == 0 {
		return h
	}
	return prometheus.MustNewMetricWithExemplars(h, all...)
}

func (c *collector) collectFiles(count func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	f := c.Files()
	count(files, f.Hits, "memory")
	count(files, f.OpenHits, "open file")
	count(files, f.Misses, "disk")
	count(loads, f.Loads)
	count(evictions, f.Evictions, "content")
	count(evictions, f.OpenEvictions, "open file")
	count(notKept, f.Refused)
	count(stale, f.Stale)
	gauge(cacheBytes, float64(f.Bytes))
	gauge(cacheLimit, float64(f.MaxBytes))
	gauge(cachedFiles, float64(f.Files))
	gauge(openFiles, float64(f.Open))
}

func collectCaches(s *cache.Stats, count func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	count(cached, s.Hits, "hit")
	count(cached, s.Stale, "stale")
	count(cached, s.Revalidated, "revalidated")
	count(cached, s.Joined, "joined")
	count(cached, s.Misses, "miss")
	count(cached, s.Passed, "passed")
	count(cacheStored, s.Stored)
	count(cacheEvicted, s.Evicted)
	count(cacheCorrupt, s.Corrupt)
	count(cacheSent, s.Bytes)
	gauge(cacheEntries, float64(s.Entries))
	gauge(cacheHeld, float64(s.Memory), "memory")
	gauge(cacheHeld, float64(s.Disk), "disk")
}

// addBackend adds what another site says of a backend, which is up if all say so.
func addBackend(sum, s *proxy.BackendStats) {
	for i, n := range s.Responses {
		sum.Responses[i] += n
	}
	for cause, n := range s.Failures {
		sum.Failures[cause] += n
	}
	sum.Dials, sum.Queued, sum.Retries = sum.Dials+s.Dials, sum.Queued+s.Queued, sum.Retries+s.Retries
	sum.OverBudget, sum.Ejected, sum.Mirrored, sum.Dropped = sum.OverBudget+s.OverBudget, sum.Ejected+s.Ejected, sum.Mirrored+s.Mirrored, sum.Dropped+s.Dropped
	sum.Weight = max(sum.Weight, s.Weight)
	sum.Outstanding, sum.Tunnels, sum.Up = sum.Outstanding+s.Outstanding, sum.Tunnels+s.Tunnels, sum.Up && s.Up
}

// collectBackends sums up what several sites say of one backend.
func (c *collector) collectBackends(count func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	sums := make(map[string]*proxy.BackendStats)
	for _, s := range c.Backends() {
		if sum := sums[s.Name]; sum != nil {
			addBackend(sum, &s)
		} else {
			sums[s.Name] = &s
		}
	}
	for name, s := range sums {
		for class, n := range s.Responses {
			if class > 0 {
				count(backendResponses, n, name, strconv.Itoa(class)+"xx")
			}
		}
		for cause, n := range s.Failures {
			count(backendFailures, n, name, cause)
		}
		count(backendDials, s.Dials, name)
		count(backendQueued, s.Queued, name)
		count(backendRetries, s.Retries, name)
		gauge(backendRequests, float64(s.Outstanding), name)
		gauge(backendTunnels, float64(s.Tunnels), name)
		count(backendOver, s.OverBudget, name)
		count(backendEjected, s.Ejected, name)
		count(backendMirrored, s.Mirrored, name)
		count(backendDropped, s.Dropped, name)
		gauge(backendWeight, s.Weight, name)
		gauge(backendUp, oneIf(s.Up), name)
	}
}

func collectGraph(g *bgraph.Snapshot, count func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	for _, r := range g.Resources {
		gauge(inUse, float64(r.InUse), r.Name, r.Unit)
		if r.Limit > 0 {
			gauge(limit, float64(r.Limit), r.Name, r.Unit)
		}
	}
	working := words.Working(g)
	gauge(loops, float64(working), "working")
	gauge(loops, float64(len(g.Loops)-working), "resting")
	for _, l := range g.Loops {
		gauge(tasks, float64(l.Tasks), strconv.Itoa(l.Index))
	}
	if g.Sched == nil {
		return
	}
	count(admitted, g.Sched.Admitted)
	count(deferred, g.Sched.Deferred)
	for _, r := range g.Sched.Refusals {
		count(refused, r.Count, r.Why)
	}
	most := 0.0
	for _, r := range g.Sched.Resources {
		most = max(most, r.Utilisation)
		gauge(utilisation, r.Utilisation, r.Name)
		for _, s := range States {
			gauge(state, oneIf(s == r.State), r.Name, s)
		}
	}
	gauge(scarcest, most)
}
