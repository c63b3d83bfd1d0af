package tracing

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// Attributes that are Knot's own.
const (
	nodeKey      = attribute.Key("capriccio.node") // of the blocking graph, as bgdump calls it
	backendKey   = attribute.Key("knot.backend")
	requestIDKey = attribute.Key("knot.request_id")
)

// entranceNode is what the blocking graph calls the place where requests wait to be admitted.
const entranceNode = "request"

// inner has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type inner interface {
	PassHeader(name, value string)
	RequestID() string
	SetSpan(s ownctx.Span)
	Span() ownctx.Span
}

// Prepare begins the span of a request. It is one of site.Site.Prepare. A second call changes nothing.
func (t *Tracer) Prepare(x *knot.Ctx) {
	in := ownctx.Of(x).(inner)
	if in.Span() != nil {
		return
	}
	waits := engine.TakeWaits()
	now := time.Now()
	admitted := now.Add(-waits.Bottleneck)
	began := admitted.Add(-waits.Entrance)
	ctx, name, method := context.Background(), "HTTP", x.Method()
	if known[method] {
		name = method
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began)}
	if parent := parentOf(x); parent.IsValid() {
		if x.TrustPeers(knot.Trust{}) {
			ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		} else { // a client does not say what is sampled here
			options = append(options, trace.WithLinks(trace.Link{SpanContext: parent}))
		}
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	s := &requestSpan{t: t, in: in, ctx: ctx, span: span, name: name, parent: textOf(span.SpanContext())}
	in.SetSpan(s)
	in.PassHeader("traceparent", "") // proxies ask the span: with a line of its own no two requests could share a response in a cache
	in.PassHeader("tracestate", "")
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attributesOf(x, name)...)
	if waits.Entrance > 0 {
		t.wait(ctx, "wait to be admitted", began, admitted, at(entranceNode)...)
	}
	if waits.Bottleneck > 0 {
		t.wait(ctx, "wait for room", admitted, now, at(waits.PlaceOf())...)
	}
}

// wait makes the span of a wait that is over.
func (t *Tracer) wait(ctx context.Context, name string, from, to time.Time, about ...attribute.KeyValue) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(about...))
	span.End(trace.WithTimestamp(to))
}

// at is the attribute for a node; "": it is not known.
func at(node string) []attribute.KeyValue {
	if node == "" {
		return nil
	}
	return []attribute.KeyValue{nodeKey.String(node)}
}

// known are the methods that name spans. Names are few; clients send any method.
var known = map[string]bool{
	"GET": true, "HEAD": true, "POST": true, "PUT": true, "DELETE": true, "CONNECT": true, "OPTIONS": true, "TRACE": true, "PATCH": true,
}

// versions are those of protocols.
var versions = map[string]string{"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2.0": "2", "HTTP/3.0": "3"}

func attributesOf(x *knot.Ctx, method string) []attribute.KeyValue {
	scheme := "http"
	if x.TLS() != nil {
		scheme = "https"
	}
	if !known[method] {
		method = "_OTHER"
	}
	all := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(scheme), semconv.URLPath(text(x.Path())),
		semconv.NetworkProtocolVersion(versions[x.Proto()]),
	}
	all = append(all, addressOf(text(x.Host()))...)
	if client := x.ClientAddr(); client.IsValid() {
		all = append(all, semconv.ClientAddress(client.String()))
	}
	if agent := x.Header("User-Agent"); agent != "" {
		all = append(all, semconv.UserAgentOriginal(text(agent)))
	}
	return all
}

// text is what a client has sent, for an attribute: a batch with one that is not UTF-8 would not be sent at all.
func text(of string) string { return strings.ToValidUTF8(of, "\ufffd") }

// A requestSpan is the span of a request. Try is safe from anywhere.
type requestSpan struct {
	t      *Tracer
	in     inner // until End
	ctx    context.Context
	span   trace.Span
	name   string
	parent string // traceparent of its children
	tries  atomic.Int32
}

// Context is part of ownctx.Span.
func (s *requestSpan) Context() (parent, state string) {
	return s.parent, s.span.SpanContext().TraceState().String()
}

// End is part of ownctx.Span.
func (s *requestSpan) End(status int, bytes int64, took time.Duration) {
	if s.span.IsRecording() {
		s.span.SetAttributes(semconv.HTTPResponseStatusCode(status), semconv.HTTPResponseBodySize(int(bytes)))
		if id := s.in.RequestID(); id != "" {
			s.span.SetAttributes(requestIDKey.String(id))
		}
		if status >= 500 {
			fail(s.span, strconv.Itoa(status))
		}
		if took > 0 {
			s.t.exemplars.note(took, s.span.SpanContext())
		}
	}
	s.span.End()
	s.in = nil
}

func fail(span trace.Span, kind string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, "")
}

// Try is part of ownctx.Span.
func (s *requestSpan) Try(backend string) (ownctx.Try, string) {
	if !s.span.SpanContext().IsSampled() {
		return untraced{}, s.parent
	}
	ctx, span := s.t.tracer.Start(s.ctx, s.name, trace.WithSpanKind(trace.SpanKindClient))
	method := s.name
	if !known[method] {
		method = "_OTHER"
	}
	span.SetAttributes(semconv.HTTPRequestMethodKey.String(method), backendKey.String(backend))
	span.SetAttributes(addressOf(backend)...)
	if again := int(s.tries.Add(1)) - 1; again > 0 {
		span.SetAttributes(semconv.HTTPRequestResendCount(again))
	}
	return &tryStep{s.t, ctx, span}, textOf(span.SpanContext())
}

// addressOf is where a backend is, by its name, or a server, by the Host of a request.
func addressOf(name string) []attribute.KeyValue {
	_, at, ok := strings.Cut(name, "://")
	if !ok {
		at = strings.TrimPrefix(name, "unix:")
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(at)}
	}
	all := []attribute.KeyValue{semconv.ServerAddress(host)}
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, semconv.ServerPort(n))
	}
	return all
}

// A tryStep is the span of a try.
type tryStep struct {
	t    *Tracer
	ctx  context.Context
	span trace.Span
}

// Queued is part of ownctx.Try.
func (s *tryStep) Queued(since time.Time, node string) {
	s.t.wait(s.ctx, "wait for a connection", since, time.Now(), at(node)...)
}

// End is part of ownctx.Try.
func (s *tryStep) End(status int, cause string) {
	if status != 0 {
		s.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	switch {
	case cause != "":
		fail(s.span, cause)
	case status >= 400: // of a client's span that is an error, unlike of a server's
		fail(s.span, strconv.Itoa(status))
	}
	s.span.End()
}

// An untraced is a try of a request that is not sampled.
type untraced struct{}

func (untraced) Queued(time.Time, string) {}
func (untraced) End(int, string)          {}

// format reads and writes W3C Trace Context.
var format propagation.TraceContext

// lines are those of a request, for format.
type lines struct{ x *knot.Ctx }

// Get is part of propagation.TextMapCarrier. Of traceparent there must be one line; those of tracestate are one list.
func (l lines) Get(name string) string {
	var all []string
	for v := range site.HeaderValues(l.x, name) {
		all = append(all, string(v))
	}
	if name == "traceparent" && len(all) > 1 {
		return ""
	}
	return strings.Join(all, ",")
}

func (l lines) Set(string, string) {}
func (l lines) Keys() []string     { return nil }

// parentOf is the span that the request is part of, as its lines say; not valid: none.
func parentOf(x *knot.Ctx) trace.SpanContext {
	if x.HeaderBytes("traceparent") == nil {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(format.Extract(context.Background(), lines{x}))
}

// textOf is the traceparent that names a span as the parent of others.
func textOf(of trace.SpanContext) string {
	carrier := make(propagation.MapCarrier, 2)
	format.Inject(trace.ContextWithSpanContext(context.Background(), of), carrier)
	return carrier["traceparent"]
}
