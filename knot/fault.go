package knot

// fault is why a request is refused: the status of the answer and the reason
// for the log and the tests. Faults are made once and compared by address.
type fault struct {
	status int
	reason string
}

func (f *fault) Error() string { return f.reason }

// needMore is not a fault: the head is right so far and not complete.
var needMore = &fault{0, "request head is incomplete"}

var (
	badLineEnd      = &fault{400, "line does not end with CR LF"}
	badMethod       = &fault{400, "method is not a token"}
	badTarget       = &fault{400, "request target is malformed"}
	badEscape       = &fault{400, "bad percent escape in the request target"}
	badPathNUL      = &fault{400, "NUL in the request target"}
	badPathAbove    = &fault{400, "request target climbs above the root"}
	badVersion      = &fault{400, "HTTP version is malformed"}
	badFold         = &fault{400, "folded header line"}
	badName         = &fault{400, "header name is not a token"}
	badValue        = &fault{400, "control byte in a header value"}
	badHost         = &fault{400, "malformed Host"}
	twoHosts        = &fault{400, "more than one Host"}
	noHost          = &fault{400, "no Host in an HTTP/1.1 request"}
	badLength       = &fault{400, "malformed Content-Length"}
	twoLengths      = &fault{400, "more than one Content-Length"}
	twoCodings      = &fault{400, "more than one Transfer-Encoding"}
	badCoding       = &fault{400, "Transfer-Encoding does not end with chunked, or is malformed"}
	codingAndLength = &fault{400, "both Transfer-Encoding and Content-Length"}
	codingBefore11  = &fault{400, "Transfer-Encoding in an HTTP/1.0 request"}
	badChunk        = &fault{400, "malformed chunk"}
	badTrailer      = &fault{400, "malformed trailer"}
	bodyTorn        = &fault{400, "connection ended inside the request body"}
	headTimeout     = &fault{408, "request head took too long"}
	bodyTimeout     = &fault{408, "request body took too long"}
	bodyTooLarge    = &fault{413, "request body is too large"}
	tooMuchFraming  = &fault{413, "chunks have more framing than content"}
	targetTooLong   = &fault{414, "request line is too long"}
	badExpectation  = &fault{417, "unknown expectation"}
	headTooLarge    = &fault{431, "request head is too large"}
	tooManyFields   = &fault{431, "too many header fields"}
	overloaded      = &fault{503, "too many connections"}
	noTunnel        = &fault{501, "CONNECT is not served"}
	unknownCoding   = &fault{501, "unknown transfer coding"}
	unknownVersion  = &fault{505, "HTTP version is not 1.x"}
)

// Is lets errors.Is(err, knot.Status(413)) work on what a body read returns.
func (f *fault) Is(target error) bool {
	status, ok := target.(Status)
	return ok && f.status == int(status)
}
