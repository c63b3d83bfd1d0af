// Package nethttp has the parts of a server for handlers of net/http that need neither a Server nor a Ctx of Knot:
//
//   - Fill makes the http.Request from a parsed head,
//   - Context is the context of the request,
//   - Head and Trailer say what the header that a handler has set means for the response,
//   - FilePart finds the file in what a handler copies to the response,
//   - Native runs the handler, in the task of the request or on a goroutine, and Offload on a goroutine,
//   - Hooks calls the functions of an http.Server, and Log, OffersHTTP2 and Protocols read its settings.
//
// The type exchange of package knot has the response that is being sent, and its locks.
package nethttp
