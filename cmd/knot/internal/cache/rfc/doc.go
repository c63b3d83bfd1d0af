// Package rfc decides what a shared HTTP cache may keep, and what it may answer with it: RFC 9111 (Caching), what that
// takes of RFC 9110 (conditions and ranges), and RFC 5861 (stale responses). It is given the time, and waits for nothing. All
// functions may be called from anywhere.
package rfc
