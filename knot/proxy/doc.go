// Package proxy passes requests of a knot.Server on to other servers and their responses back: to backends
// that speak HTTP/1.1 (RFC 9110, 7.6; RFC 9112), HTTP/2 or FastCGI, over TCP or unix sockets.
//
//	request ─→ pick a backend ─→ connection of its own loop ─→ send ─→ head of the response ─→ body
//	               ↑                                             │            (101: a tunnel)
//	               └──── another try, if nothing can have happened ────┘
//
// Handle runs in the request's task, or its goroutine where there is no runtime; a second one sends a body that has not
// come with its head. Both directions go through buffers of fixed size: a slow reader holds up the writer. A message
// that two sides may understand differently is refused: a request by package knot, a response by h1.ResponseHead, which
// takes LF alone for the end of a line. A silent tunnel (WebSocket) holds neither task nor buffer.
//
// The wait for a backend is a node of the blocking graph, by route: a backend that slows down delays its own routes,
// and the scheduler keeps others free (docs/overload.md). Besides, connections and queue of each backend are limited.
package proxy
