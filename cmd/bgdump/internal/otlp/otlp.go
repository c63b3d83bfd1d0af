// Package otlp sends metrics to a receiver of the OpenTelemetry protocol, by HTTP. It starts no goroutine that outlives a call. An
// Exporter may be used from one goroutine at a time.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/capriccio-go/capriccio/cmd/bgdump/internal/metrics"
)

// usualPath is where receivers take metrics.
const usualPath = "/v1/metrics"

// An Exporter sends to one receiver.
type Exporter struct {
	client *otlpmetrichttp.Exporter
}

// Open makes an Exporter for the receiver at a URL, whose path is /v1/metrics if it has none. It does not connect. Headers and
// certificates are those of the environment, OTEL_EXPORTER_OTLP_HEADERS and the like.
func Open(receiver string) (*Exporter, error) {
	u, err := url.Parse(receiver)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("want a URL like http://localhost:4318 (headers, as for a password, are in OTEL_EXPORTER_OTLP_HEADERS)")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = usualPath
	}
	client, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(u.String()),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
		otlpmetrichttp.WithTimeout(0),                          // the caller's context has one
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{})) // the next values are sent in a while
	if err != nil {
		return nil, err
	}
	return &Exporter{client}, nil
}

// Send sends the metrics as they were at a time. It waits until the receiver has answered or ctx ends. A receiver that does not take
// them is an error.
func (e *Exporter) Send(ctx context.Context, all []metrics.Family, at time.Time) error {
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: "github.com/capriccio-go/capriccio/cmd/bgdump"}}
	for _, f := range all {
		gauge := metricdata.Gauge[float64]{DataPoints: make([]metricdata.DataPoint[float64], 0, len(f.Samples))}
		for _, s := range f.Samples {
			gauge.DataPoints = append(gauge.DataPoints, metricdata.DataPoint[float64]{Attributes: attributesOf(s.Labels), Time: at, Value: s.Value})
		}
		scope.Metrics = append(scope.Metrics, metricdata.Metrics{Name: f.Name, Description: f.Help, Data: gauge})
	}
	err := e.client.Export(ctx, &metricdata.ResourceMetrics{
		Resource:     resource.NewSchemaless(attribute.String("service.name", "bgdump")),
		ScopeMetrics: []metricdata.ScopeMetrics{scope},
	})
	if err != nil && strings.Contains(err.Error(), "retry-able") { // its text leaves the status out
		err = fmt.Errorf("the receiver can't take them now (429, 502, 503 or 504): %w", err)
	}
	return err
}

func attributesOf(labels []string) attribute.Set {
	var all []attribute.KeyValue
	for at := 0; at+1 < len(labels); at += 2 {
		all = append(all, attribute.String(labels[at], labels[at+1]))
	}
	return attribute.NewSet(all...)
}

// Close ends the Exporter and its connections.
func (e *Exporter) Close() error { return e.client.Shutdown(context.Background()) }
