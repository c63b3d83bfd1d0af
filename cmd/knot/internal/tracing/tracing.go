// Package tracing makes spans of OpenTelemetry of the requests to a server, of the tries of its proxies, and of waits for
// admission or a connection, and sends them to a collector by OTLP over HTTP.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// usualPath is where collectors take spans.
	usualPath = "/v1/traces"
	// sendPatience is how long a collector may take for a batch. Spans wait meanwhile.
	sendPatience = 5 * time.Second
	// closePatience is how long Close waits for the collector.
	closePatience = 2 * time.Second
	// maxText is how many characters of a text are kept in a span: paths and the like are as long as clients want them.
	maxText = 1024
)

// Config says what is traced.
type Config struct {
	Collector string          // URL; without a path /v1/traces is meant
	Sample    float64         // the part of the traces that begin here, from 0 to 1
	Limits    []time.Duration // of the durations of requests in metrics, for exemplars
}

func (c *Config) endpoint() (string, error) {
	u, err := url.Parse(c.Collector)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("want a URL like http://localhost:4318 (headers, as for a password, are in OTEL_EXPORTER_OTLP_HEADERS)")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = usualPath
	}
	return u.String(), nil
}

// A Tracer makes the spans. Made by New. Safe from anywhere; its methods never park, but for Close.
type Tracer struct {
	provider  *sdktrace.TracerProvider
	tracer    trace.Tracer
	out       *sender
	exemplars exemplars
}

// New makes a Tracer. It does not connect. Headers and certificates for the collector, and attributes of the process, are those of
// the environment: OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME and the like.
func New(c Config, log *slog.Logger) (*Tracer, error) {
	endpoint, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	client, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(sendPatience),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{})) // there are always later spans
	if err != nil {
		return nil, err
	}
	about, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "knot")), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("the environment's attributes: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	t := &Tracer{out: &sender{SpanExporter: client, log: log, to: endpoint}, exemplars: newExemplars(c.Limits)}
	engine.NoteWaits()
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.Sample))),
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSpanProcessor(&t.out.ended), sdktrace.WithBatcher(t.out))
	t.tracer = t.provider.Tracer("github.com/capriccio-go/capriccio/knot")
	return t, nil
}

// Spans returns how many spans have ended that were sampled, and how many of these a collector has taken.
func (t *Tracer) Spans() (ended, sent uint64) { return t.out.ended.n.Load(), t.out.sent.Load() }

// Close sends what is left, if the collector takes it soon.
func (t *Tracer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	t.provider.Shutdown(ctx) // the log has what the collector does not take
}
