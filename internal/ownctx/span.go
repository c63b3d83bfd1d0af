package ownctx

import "time"

// A Span is told what becomes of a request, for traces. Its methods do not park.
type Span interface {
	// Context returns the traceparent and the tracestate of what is done for the request; of either "": none.
	Context() (parent, state string)
	// Try is called when a proxy begins to send the request to a backend, and returns what is told of that, and the traceparent that
	// the backend gets in place of the one of the request. It may be called after End, for what a cache fetches.
	Try(backend string) (t Try, traceparent string)
	// End is called once, when the request has been answered, or, with status 101, when a handler has taken its connection over. bytes are
	// those of the body. took is the time since the head of the request was complete; 0: not known.
	End(status int, bytes int64, took time.Duration)
}

// A Try is told how a try to have a backend answer goes. Its methods do not park.
type Try interface {
	// Queued is called when the request has waited for the backend, since then, at that node of the blocking graph; "": it is not known.
	Queued(since time.Time, node string)
	// End is called once. status is that of the backend's response, 0: there is none. cause is what has gone wrong, as metrics call it; "":
	// nothing.
	End(status int, cause string)
}
