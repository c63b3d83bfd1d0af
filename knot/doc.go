// Package knot is the Knot web server as a library: HTTP/1.1 and HTTP/1.0 on
// the task runtime, with a handler for files below a root directory.
//
// A handler is plain blocking code in a task of its own. Between requests a
// connection holds neither task nor stack nor buffer, only one small struct;
// a new task starts when bytes arrive. All requests that stand complete in the
// read buffer are answered in order and their responses leave in one write.
//
// HTTP/2 is spoken on the same connections (docs/http2.md), with a task for each request. The package
// starts a goroutine for a request only where handlers of net/http wait natively (docs/net-http.md).
// It never writes into what a handler may keep, and never guesses the framing of a message: what RFC 9112
// calls an error is answered with an error and the connection is closed.
//
// Where RFC 9112 leaves a choice:
//
//   - Lines end with CR LF. A bare LF or CR is refused, in the head and in
//     chunked framing alike: two parsers that disagree on the end of a line are
//     how requests are smuggled. The one exception is the CONNECT of net/rpc:
//     nothing but its line is read.
//   - Empty lines before a request line are skipped.
//   - Folded header lines, white space before the colon, a second
//     Content-Length even if it agrees with the first, and Content-Length next
//     to Transfer-Encoding are refused.
//   - The only transfer coding is chunked. Chunk extensions and trailers are
//     checked and dropped.
//   - Host must be by the grammar of RFC 3986, with a port up to 65535.
//   - A request target has no fragment, and a path no backslash. Bytes from 0x80
//     up and what clients leave unescaped (brackets, braces, quotation marks and
//     so on) are let through.
//   - Unknown methods go to the handler. CONNECT gets 501, but see Server.Connect.
//   - HTTP/1.2 and later 1.x are served as HTTP/1.1.
//
// Unless a function says otherwise it may be called from a task and from a
// plain goroutine. On a connection without OnReadable (any net.Conn) one
// goroutine serves the connection as long as it lives.
package knot
