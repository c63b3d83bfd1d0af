package otlp

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/capriccio-go/capriccio/cmd/bgdump/internal/metrics"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A script is a receiver.
type script struct {
	t      *testing.T
	status int
	asked  []string // paths with the header api-key
	got    *collector.ExportMetricsServiceRequest
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.URL.Path+" "+r.Header.Get("api-key"))
	body := testenv.Need(gzip.NewReader(r.Body))(s.t)
	s.got = new(collector.ExportMetricsServiceRequest)
	testenv.Check(s.t, proto.Unmarshal(testenv.Need(io.ReadAll(body))(s.t), s.got))
	w.WriteHeader(s.status)
}

// open returns an Exporter to a receiver, which ends with the test.
func (s *script) open(t *testing.T, path string) *Exporter {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	e := testenv.Need(Open(server.URL + path))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

var shop = []metrics.Family{
	{Name: "bgraph_up", Help: "1: there.", Samples: []metrics.Sample{{Labels: []string{"source", "shop"}, Value: 1}}},
	{Name: "bgraph_place_waiting", Help: "Waiting.", Samples: []metrics.Sample{
		{Labels: []string{"source", "shop", "place", "mutex main.lookup"}, Value: 17.75}, {Labels: []string{"source", "shop", "place", "„odd“ \"\n"}, Value: 0.5},
	}},
}

// lines are the values that a receiver got.
func lines(got *collector.ExportMetricsServiceRequest) (out []string) {
	for _, r := range got.GetResourceMetrics() {
		for _, a := range r.GetResource().GetAttributes() {
			out = append(out, a.GetKey()+"="+a.GetValue().GetStringValue())
		}
		for _, scope := range r.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				for _, p := range m.GetGauge().GetDataPoints() {
					out = append(out, line(m, p))
				}
			}
		}
	}
	return out
}

func line(m *metricpb.Metric, p *metricpb.NumberDataPoint) string {
	text := m.GetName() + " (" + m.GetDescription() + ")"
	for _, a := range p.GetAttributes() {
		text += " " + a.GetKey() + "=" + a.GetValue().GetStringValue()
	}
	return fmt.Sprintf("%s: %g at %d", text, p.GetAsDouble(), p.GetTimeUnixNano()/1e9)
}

func TestMetricsAreSent(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
	for path, at := range map[string]string{"": "/v1/metrics", "/": "/v1/metrics", "/otlp/v1/metrics": "/otlp/v1/metrics"} {
		s := &script{t: t, status: 200}
		testenv.Must(t, s.open(t, path).Send(context.Background(), shop, time.Unix(1234, 0)))
		testenv.Equal(t, strings.Join(s.asked, ","), at+" secret", "requests")
		testenv.Equal(t, strings.Join(lines(s.got), "\n"), strings.Join([]string{
			"service.name=bgdump",
			"bgraph_up (1: there.) source=shop: 1 at 1234",
			"bgraph_place_waiting (Waiting.) place=mutex main.lookup source=shop: 17.75 at 1234",
			"bgraph_place_waiting (Waiting.) place=„odd“ \"\n source=shop: 0.5 at 1234",
		}, "\n"), "metrics")
	}
}

// A receiver that does not take the metrics is asked once, and an error at once.
func TestReceiversThatRefuse(t *testing.T) {
	for _, status := range []int{400, 401, 404, 429, 500, 503} {
		s := &script{t: t, status: status}
		testenv.ErrorSays(t, s.open(t, "").Send(context.Background(), shop, time.Unix(0, 0)), map[bool]string{true: "(429, 502, 503 or 504)", false: fmt.Sprint(status)}[status == 429 || status == 503], "status %d", status)
		testenv.Equal(t, len(s.asked), 1, "requests that were answered with %d", status)
	}
	server := httptest.NewServer(nil)
	server.Close()
	e := testenv.Need(Open(server.URL))(t)
	defer e.Close()
	testenv.ErrorSays(t, e.Send(context.Background(), shop, time.Unix(0, 0)), "refused", "a receiver that is away")
}

// A receiver that does not answer is given up with the context.
func TestAReceiverThatHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	e := testenv.Need(Open(server.URL))(t)
	defer e.Close()
	testenv.Fails(t, e.Send(ctx, shop, time.Unix(0, 0)), "no answer")
}

func TestReceiversThatAreNone(t *testing.T) {
	for _, url := range []string{"", "localhost:4318", "grpc://localhost:4317", "http://", "http://me:secret@localhost:4318", "http://a b", "\x00"} {
		testenv.ErrorSays(t, testenv.Err(Open(url)), "want a URL like http://localhost:4318", url)
	}
}
