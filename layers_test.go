package capriccio_test

import (
	"path"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// layers says what each folder may import of this module and from outside of the
// standard library. A folder that is not listed is a failure, so that the table grows
// with the project; design and table must agree.
var layers = map[string]string{
	".":                              "bgraph internal/engine task ressched stackchunk netpoll internal/bgraph internal/graphview/tables golang.org/x/sys/unix internal/poller internal/recorder internal/feed internal/logwriter internal/chunk internal/graphlimits",
	"internal/coro":                  "",
	"internal/fromc":                 "",
	"internal/uring":                 "golang.org/x/sys/unix github.com/pawelgaczynski/giouring",
	"internal/ownconn":               "",
	"internal/ownctx":                "",
	"internal/orca":                  "",
	"internal/timeleft":              "",
	"internal/urgency":               "",
	"internal/peerwatch":             "internal/ownconn golang.org/x/sys/unix",
	"internal/regular":               "",
	"internal/kernel":                "golang.org/x/sys/unix",
	"internal/testenv":               "internal/kernel golang.org/x/sys/unix",
	"internal/httpcases":             "",
	"internal/logwriter":             "",
	"internal/chunk":                 "internal/coro",
	"internal/wheel":                 "",
	"internal/engine":                "internal/kernel internal/coro internal/chunk internal/wheel internal/recorder internal/admit internal/funcname internal/logwriter golang.org/x/sys/unix",
	"internal/admit":                 "internal/coro",
	"internal/sched":                 "internal/engine internal/recorder internal/admit",
	"internal/sim":                   "internal/engine",
	"internal/enginetest":            "internal/engine internal/sim internal/testenv",
	"internal/sim/programs":          "internal/sim task stackchunk internal/engine",
	"internal/simserver":             "internal/admit task internal/engine internal/bgraph internal/poller internal/recorder netpoll knot aio internal/probe internal/feed internal/kernel internal/coro golang.org/x/net/http2 golang.org/x/net/http2/hpack golang.org/x/sys/unix",
	"internal/simfleet":              "internal/admit internal/balance",
	"stackchunk":                     "internal/coro internal/chunk",
	"task":                           "internal/engine internal/wheel",
	"aio":                            "task internal/engine internal/kernel internal/uring golang.org/x/sys/unix",
	"internal/poller":                "internal/engine",
	"netpoll":                        "internal/ownconn task internal/engine internal/poller ressched internal/kernel internal/uring netpoll/internal/sys netpoll/internal/sockaddr golang.org/x/sys/unix",
	"netpoll/internal/sys":           "internal/kernel golang.org/x/sys/unix",
	"netpoll/internal/sockaddr":      "internal/engine netpoll/internal/sys golang.org/x/sys/unix",
	"internal/feed":                  "internal/engine internal/bgraph internal/recorder internal/sched internal/admit internal/probe internal/coro golang.org/x/sys/unix",
	"internal/breathe":               "internal/coro",
	"internal/funcname":              "",
	"internal/recorder":              "internal/admit internal/coro internal/breathe internal/funcname internal/bgraph stackchunk internal/graphlimits internal/buckets internal/chunk",
	"internal/bgraph":                "internal/breathe internal/funcname internal/graphlimits internal/buckets",
	"internal/contenttype":           "",
	"internal/scc":                   "",
	"internal/flaghelp":              "",
	"internal/buckets":               "",
	"internal/balance":               "",
	"internal/graphlimits":           "",
	"internal/kube":                  "internal/graphlimits",
	"internal/filesd":                "go.yaml.in/yaml/v2",
	"internal/words":                 "internal/bgraph internal/funcname",
	"internal/graphcases":            "internal/bgraph internal/testenv internal/buckets",
	"internal/graphcompare":          "internal/bgraph internal/graphview/lint internal/funcname internal/words",
	"internal/graphlayout":           "internal/bgraph internal/funcname internal/words",
	"internal/graphview":             "",
	"internal/graphview/lint":        "internal/bgraph internal/funcname internal/scc internal/words",
	"internal/graphview/tables":      "internal/bgraph internal/graphview/lint internal/funcname internal/words",
	"internal/graphview/draw":        "internal/bgraph internal/graphview/lint internal/graphlayout internal/words",
	"internal/graphview/export":      "internal/bgraph internal/funcname internal/words",
	"internal/gotrace":               "internal/bgraph internal/funcname internal/words golang.org/x/exp/trace internal/graphlimits",
	"bgraph":                         "internal/bgraph internal/graphlimits",
	"bgraph/graphhttp":               "internal/engine task internal/bgraph internal/graphview/tables internal/graphview/lint internal/graphview/draw internal/graphview/export internal/words",
	"internal/flow":                  "internal/engine task ressched",
	"internal/flow/flownet":          "task ressched netpoll aio internal/flow internal/ownconn",
	"examples/convoy":                "",
	"examples/cookbook":              "task netpoll knot",
	"examples/fleet":                 "internal/simfleet",
	"examples/flowweb":               ". task netpoll aio internal/flow internal/flow/flownet",
	"examples/memcache":              ". task netpoll",
	"examples/overload":              ". netpoll knot",
	"examples/vod":                   ". task netpoll aio internal/flow internal/flow/flownet golang.org/x/sys/unix",
	"ressched":                       "internal/engine internal/admit task",
	"internal/probe":                 "golang.org/x/sys/unix",
	"knot":                           "internal/ownconn internal/admit knot/internal/accesslog knot/internal/clientaddr knot/internal/clock knot/internal/counters knot/internal/fdlimit knot/internal/h1 knot/internal/h2 knot/internal/h3 knot/internal/neterr knot/internal/nethttp knot/internal/pace knot/internal/proxyheader knot/internal/store knot/internal/tasks knot/internal/tlsin . internal/timeleft internal/urgency internal/logwriter internal/engine ressched internal/coro task netpoll aio stackchunk golang.org/x/sys/unix internal/ownctx internal/peerwatch",
	"knot/certs":                     "internal/regular",
	"knot/knottest":                  ". knot",
	"knot/internal/h1":               "",
	"knot/internal/proxyheader":      "",
	"knot/internal/accesslog":        "knot/internal/clientaddr knot/internal/clock knot/internal/h1",
	"knot/internal/clientaddr":       "knot/internal/h1",
	"knot/internal/clock":            "knot/internal/h1",
	"knot/internal/counters":         "knot/internal/h1",
	"knot/internal/nethttp":          "knot/internal/h1 aio internal/coro internal/engine internal/logwriter task golang.org/x/sys/unix internal/peerwatch internal/urgency",
	"knot/internal/fdlimit":          "internal/engine golang.org/x/sys/unix",
	"knot/internal/neterr":           "golang.org/x/sys/unix",
	"knot/internal/pace":             "",
	"knot/internal/store":            "knot/internal/clock knot/internal/h1 knot/internal/tasks aio ressched task golang.org/x/sys/unix internal/contenttype",
	"knot/internal/tasks":            "ressched task",
	"knot/internal/h2":               "internal/ownconn knot/internal/clock knot/internal/h1 knot/internal/tasks internal/engine ressched task golang.org/x/net/http2 golang.org/x/net/http2/hpack",
	"knot/internal/h3":               "internal/engine internal/ownconn knot/internal/h1",
	"knot/internal/tlsin":            "internal/ownconn knot/internal/tasks knot/internal/tlsout internal/engine ressched stackchunk golang.org/x/sys/unix",
	"knot/internal/tlsout":           "internal/ownconn task",
	"knot/compress":                  "knot github.com/andybalholm/brotli github.com/klauspost/compress/gzip github.com/klauspost/compress/zstd knot/internal/h1 knot/internal/store",
	"knot/upstream":                  "internal/balance internal/orca internal/timeleft internal/urgency",
	"knot/proxy":                     "internal/orca internal/timeleft internal/urgency internal/balance internal/ownconn knot knot/internal/h1 knot/internal/tlsout internal/engine internal/logwriter task netpoll aio internal/ownctx internal/peerwatch",
	"cmd/knot/internal/site":         "knot task internal/regular internal/logwriter golang.org/x/crypto/bcrypt internal/ownctx internal/peerwatch internal/contenttype",
	"cmd/knot/internal/acme":         "cmd/knot/internal/sharedstore internal/logwriter internal/regular github.com/caddyserver/certmagic github.com/libdns/cloudflare github.com/libdns/rfc2136 github.com/mholt/acmez/v3 go.uber.org/zap go.uber.org/zap/zapcore golang.org/x/net/idna",
	"cmd/knot/internal/addresses":    "netpoll golang.org/x/sys/unix",
	"cmd/knot/internal/http3":        "github.com/quic-go/quic-go github.com/quic-go/quic-go/http3",
	"cmd/knot/internal/access":       "knot cmd/knot/internal/site",
	"cmd/knot/internal/clientcert":   "internal/ownctx knot knot/proxy cmd/knot/internal/site internal/regular",
	"cmd/knot/internal/forwardauth":  "internal/ownctx internal/peerwatch knot knot/proxy task cmd/knot/internal/site",
	"cmd/knot/internal/discovery":    "internal/filesd internal/kube knot/proxy github.com/miekg/dns",
	"cmd/knot/internal/sharedlimit":  "cmd/knot/internal/site cmd/knot/internal/limit cmd/knot/internal/redisclient github.com/redis/go-redis/v9",
	"cmd/knot/internal/redisclient":  "github.com/redis/go-redis/v9 github.com/redis/go-redis/v9/maintnotifications",
	"cmd/knot/internal/sharedstore":  "cmd/knot/internal/redisclient internal/logwriter github.com/caddyserver/certmagic github.com/redis/go-redis/v9 github.com/aws/aws-sdk-go-v2/aws github.com/aws/aws-sdk-go-v2/aws/transport/http github.com/aws/aws-sdk-go-v2/config github.com/aws/aws-sdk-go-v2/service/s3 github.com/aws/aws-sdk-go-v2/service/s3/types github.com/aws/smithy-go github.com/hashicorp/consul/api",
	"cmd/knot/internal/tracing":      "cmd/knot/internal/metrics cmd/knot/internal/site internal/engine internal/ownctx knot knot/proxy go.opentelemetry.io/otel/attribute go.opentelemetry.io/otel/codes go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp go.opentelemetry.io/otel/propagation go.opentelemetry.io/otel/sdk/resource go.opentelemetry.io/otel/sdk/trace go.opentelemetry.io/otel/semconv/v1.43.0 go.opentelemetry.io/otel/trace",
	"cmd/knot/internal/tickets":      "cmd/knot/internal/sharedstore internal/logwriter github.com/caddyserver/certmagic",
	"cmd/knot/internal/limit":        "knot cmd/knot/internal/site",
	"cmd/knot/internal/loadreport":   "internal/orca internal/ownctx internal/peerwatch knot task cmd/knot/internal/site",
	"cmd/knot/internal/bodies":       "knot cmd/knot/internal/site",
	"cmd/knot/internal/importance":   "internal/ownctx internal/urgency knot cmd/knot/internal/site",
	"cmd/knot/internal/requestid":    "internal/ownctx knot knot/proxy cmd/knot/internal/site",
	"cmd/knot/internal/staple":       "task golang.org/x/crypto/ocsp",
	"cmd/knot/internal/maintenance":  "aio knot cmd/knot/internal/site",
	"cmd/knot/internal/headers":      "knot knot/proxy cmd/knot/internal/site",
	"cmd/knot/internal/compression":  "knot/compress cmd/knot/internal/site",
	"cmd/knot/internal/cache":        "internal/ownctx internal/peerwatch knot task cmd/knot/internal/cache/rfc cmd/knot/internal/site",
	"cmd/knot/internal/cache/rfc":    "",
	"cmd/knot/internal/rule":         "knot cmd/knot/internal/site",
	"cmd/knot/internal/redirect":     "knot cmd/knot/internal/rule cmd/knot/internal/site",
	"cmd/knot/internal/rewrite":      "knot cmd/knot/internal/rule cmd/knot/internal/site",
	"cmd/knot/internal/config":       "cmd/knot/internal/addresses cmd/knot/internal/cache cmd/knot/internal/importance cmd/knot/internal/limit cmd/knot/internal/redirect cmd/knot/internal/rewrite internal/flaghelp github.com/pelletier/go-toml/v2 github.com/pelletier/go-toml/v2/unstable cmd/knot/internal/compression cmd/knot/internal/headers cmd/knot/internal/access cmd/knot/internal/clientcert cmd/knot/internal/forwardauth cmd/knot/internal/bodies cmd/knot/internal/maintenance internal/regular",
	"cmd/knot/internal/nginxconf":    "knot/proxy cmd/knot/internal/access cmd/knot/internal/bodies cmd/knot/internal/headers cmd/knot/internal/limit cmd/knot/internal/rule cmd/knot/internal/site github.com/pelletier/go-toml/v2",
	"cmd/knot/internal/metrics":      "knot cmd/knot/internal/cache knot/proxy internal/bgraph github.com/prometheus/client_golang/prometheus github.com/prometheus/client_golang/prometheus/collectors github.com/prometheus/client_golang/prometheus/promhttp internal/words",
	"cmd/knot":                       "go.yaml.in/yaml/v2 . internal/engine ressched internal/bgraph cmd/knot/internal/addresses cmd/knot/internal/cache cmd/knot/internal/limit cmd/knot/internal/redirect cmd/knot/internal/rewrite cmd/knot/internal/metrics cmd/knot/internal/config internal/flaghelp internal/logwriter internal/regular task netpoll knot knot/certs knot/compress knot/proxy cmd/knot/internal/site bgraph/graphhttp internal/probe golang.org/x/sys/unix github.com/pelletier/go-toml/v2 internal/words cmd/knot/internal/headers cmd/knot/internal/importance cmd/knot/internal/access cmd/knot/internal/clientcert cmd/knot/internal/forwardauth cmd/knot/internal/acme cmd/knot/internal/nginxconf cmd/knot/internal/bodies cmd/knot/internal/maintenance cmd/knot/internal/requestid cmd/knot/internal/loadreport internal/orca cmd/knot/internal/discovery cmd/knot/internal/staple internal/ownctx cmd/knot/internal/http3 cmd/knot/internal/sharedlimit cmd/knot/internal/tickets cmd/knot/internal/tracing",
	"cmd/bgdump":                     "internal/bgraph internal/gotrace internal/graphview/tables internal/graphview/lint internal/graphview/draw internal/graphview/export internal/graphcompare internal/words internal/flaghelp cmd/bgdump/web golang.org/x/sys/unix internal/graphlimits go.yaml.in/yaml/v2 cmd/bgdump/internal/metrics internal/kube internal/filesd github.com/google/pprof/profile cmd/bgdump/internal/kube cmd/bgdump/internal/otlp",
	"cmd/bgdump/internal/kube":       "internal/graphlimits",
	"cmd/bgdump/internal/metrics":    "internal/bgraph internal/graphview/lint internal/words",
	"cmd/bgdump/internal/otlp":       "cmd/bgdump/internal/metrics go.opentelemetry.io/otel/attribute go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp go.opentelemetry.io/otel/sdk/instrumentation go.opentelemetry.io/otel/sdk/metric/metricdata go.opentelemetry.io/otel/sdk/resource",
	"cmd/bgdump/web":                 "internal/bgraph internal/funcname internal/graphview/tables internal/graphview/lint internal/graphview/draw internal/graphview/export internal/graphlayout internal/words cmd/bgdump/web/internal/sample",
	"cmd/bgdump/web/internal/sample": "internal/bgraph internal/buckets",
	"cmd/stackplan":                  "internal/bgraph internal/flaghelp internal/funcname cmd/stackplan/internal/plan cmd/stackplan/internal/rewrite",
	"cmd/stackplan/internal/rewrite": "cmd/stackplan/internal/plan golang.org/x/tools/go/packages",
	"cmd/stackplan/internal/frames":  "",
	"cmd/stackplan/internal/plan":    "cmd/stackplan/internal/frames internal/scc internal/bgraph golang.org/x/tools/go/packages golang.org/x/tools/go/ssa golang.org/x/tools/go/ssa/ssautil golang.org/x/tools/go/callgraph/vta",
}

// testOnly may be imported by tests besides.
const testOnly = "knot/compress knot/upstream internal/chunk internal/admit internal/enginetest internal/buckets internal/graphlimits knot/certs knot/knottest examples/cookbook golang.org/x/tools/go/packages internal/flow internal/poller internal/httpcases internal/recorder github.com/prometheus/client_golang/prometheus/testutil internal/testenv aio internal/bgraph internal/graphview/tables internal/graphview/lint internal/graphview/draw internal/graphview/export bgraph/graphhttp internal/graphcases internal/graphcompare internal/graphlayout internal/words internal/fromc internal/sim internal/sim/programs internal/coro internal/engine task ressched stackchunk netpoll knot . github.com/google/pprof/profile golang.org/x/net/nettest golang.org/x/net/netutil golang.org/x/net/http2 golang.org/x/net/http2/hpack golang.org/x/sys/unix github.com/prometheus/client_golang/prometheus/testutil/promlint github.com/caddyserver/certmagic github.com/santhosh-tekuri/jsonschema/v6 golang.org/x/crypto/ocsp github.com/quic-go/qpack github.com/quic-go/quic-go github.com/quic-go/quic-go/http3 github.com/quic-go/quic-go/quicvarint internal/ownctx go.opentelemetry.io/proto/otlp/collector/metrics/v1 go.opentelemetry.io/proto/otlp/metrics/v1 go.opentelemetry.io/proto/otlp/collector/trace/v1 go.opentelemetry.io/proto/otlp/common/v1 go.opentelemetry.io/proto/otlp/trace/v1 google.golang.org/protobuf/proto github.com/johannesboyne/gofakes3 github.com/johannesboyne/gofakes3/backend/s3mem"

// module is the path of this module.
const module = "github.com/capriccio-go/capriccio"

func TestImportsFollowTheLayers(t *testing.T) { testenv.CheckImports(t, module, layers, testOnly) }

// views are the packages that show graphs otherwise than as text: drawings, exports, comparisons.
const views = module + "/internal/graphview/draw " + module + "/internal/graphview/export " + module + "/internal/graphlayout " + module + "/internal/graphcompare"

// kept are the packages that a program may import without compiling certain others: the runtime
// without a web server, Knot as a library without what the command adds.
var kept = []struct{ packages, without string }{
	{"task netpoll aio stackchunk ressched", "crypto/tls net/http github.com/prometheus " + module + "/knot " + views},
	{". task netpoll aio stackchunk internal/bgraph ressched", "net/http html/template text/template github.com/google/pprof runtime/pprof net/http/pprof golang.org/x/exp/trace " + module + "/knot " + views},
	{". task netpoll aio stackchunk internal/bgraph ressched knot", "github.com/klauspost github.com/andybalholm github.com/pelletier github.com/prometheus golang.org/x/crypto/bcrypt golang.org/x/crypto/acme"},
}

// TestHeavyPackagesStayOut of programs that do not use them.
func TestHeavyPackagesStayOut(t *testing.T) {
	args := []string{"list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}"}
	for _, k := range kept {
		for dir := range strings.FieldsSeq(k.packages) {
			args = append(args, "./"+dir)
		}
	}
	deps := map[string][]string{} // of each package
	for line := range strings.Lines(testenv.Run(t, "", nil, "go", args...)) {
		all := strings.Fields(line)
		deps[all[0]] = all[1:]
	}
	for _, k := range kept {
		for dir := range strings.FieldsSeq(k.packages) {
			all := deps[path.Join(module, dir)]
			testenv.AtLeast(t, len(all), 10, "dependencies of %s", dir)
			for _, dep := range all {
				for heavy := range strings.FieldsSeq(k.without) {
					if strings.HasPrefix(dep+"/", heavy+"/") {
						t.Errorf("%s depends on %s", dir, dep)
					}
				}
			}
		}
	}
}
