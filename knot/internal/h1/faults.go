package h1

// Fault is why a request is refused: the status of the answer and the reason
// for the log and the tests. Faults are made once and compared by address.
type Fault struct {
	Status int
	Reason string
}

func (f *Fault) Error() string { return f.Reason }

// NeedMore is not a fault: the head is right so far and not complete.
var NeedMore = &Fault{0, "request head is incomplete"}

var (
	badLineEnd      = &Fault{400, "line does not end with CR LF"}
	badMethod       = &Fault{400, "method is not a token"}
	badTarget       = &Fault{400, "request target is malformed"}
	badEscape       = &Fault{400, "bad percent escape in the request target"}
	badPathNUL      = &Fault{400, "NUL in the request target"}
	badPathAbove    = &Fault{400, "request target climbs above the root"}
	badVersion      = &Fault{400, "HTTP version is malformed"}
	badFold         = &Fault{400, "folded header line"}
	badName         = &Fault{400, "header name is not a token"}
	badValue        = &Fault{400, "control byte in a header value"}
	badHost         = &Fault{400, "malformed Host"}
	twoHosts        = &Fault{400, "more than one Host"}
	noHost          = &Fault{400, "no Host in an HTTP/1.1 request"}
	badLength       = &Fault{400, "malformed Content-Length"}
	twoLengths      = &Fault{400, "more than one Content-Length"}
	twoCodings      = &Fault{400, "more than one Transfer-Encoding"}
	badCoding       = &Fault{400, "Transfer-Encoding does not end with chunked, or is malformed"}
	codingAndLength = &Fault{400, "both Transfer-Encoding and Content-Length"}
	codingBefore11  = &Fault{400, "Transfer-Encoding in an HTTP/1.0 request"}
	BadChunk        = &Fault{400, "malformed chunk"}
	badTrailer      = &Fault{400, "malformed trailer"}
	BodyIncomplete  = &Fault{400, "connection ended inside the request body"}
	HeadTimeout     = &Fault{408, "request head took too long"}
	BodyTimeout     = &Fault{408, "request body took too long"}
	BodyTooLarge    = &Fault{413, "request body is too large"}
	tooMuchFraming  = &Fault{413, "chunks have more framing than content"}
	targetTooLong   = &Fault{414, "request line is too long"}
	BadExpectation  = &Fault{417, "unknown expectation"}
	HeadTooLarge    = &Fault{431, "request head is too large"}
	tooManyFields   = &Fault{431, "too many header fields"}
	Overloaded      = &Fault{503, "too many connections"}
	unknownCoding   = &Fault{501, "unknown transfer coding"}
	UnknownVersion  = &Fault{505, "HTTP version is not 1.x"}
)
