// Package h1 parses HTTP/1: heads of requests and responses, and the framing of bodies. It is strict, see
// package knot. It reads bytes that the caller has and never parks; its values belong to one loop.
package h1
