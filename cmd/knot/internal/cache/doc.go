// Package cache keeps responses of backends and answers requests with them, by the rules of package rfc. It is a handler before
// another one, of a proxy say, that it fetches responses from: once for all clients that wait for the same.
package cache
