// Package headers changes the lines of headers: of the responses of a site, whoever makes them, and of the requests that go
// to its backends. CORS is a part of that.
package headers
