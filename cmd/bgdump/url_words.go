package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// throughCurl is how to get a trace that needs more than bgdump can do.
const throughCurl = `"URL/debug/pprof/trace?seconds=5" | bgdump -`

// A badAnswer is one that is neither a dump nor a trace, with what to do about it.
type badAnswer struct {
	missing bool // as of any address where there is nothing of that kind
	error
}

func (e badAnswer) Unwrap() error { return e.error }

// allBad is the error of a program with these answers: what is wrong. If there is just nothing, the
// usual places don't matter but for the last one.
func allBad(answers []badAnswer) error {
	wrong := slices.DeleteFunc(slices.Clone(answers), func(a badAnswer) bool { return a.missing })
	if len(wrong) == 0 {
		wrong = answers
		if n := len(answers); n > 2 {
			wrong = answers[n-1:]
		}
	}
	var texts []string
	for _, a := range wrong {
		texts = append(texts, a.Error())
	}
	return errors.New(strings.Join(slices.Compact(texts), "; "))
}

// refusal is the error of an answer with another status than 200.
func refusal(resp *http.Response) badAnswer {
	status, told := printable(resp.Status), firstLine(resp)
	text, todo := fmt.Sprintf("the answer is %s", status), ""
	switch {
	case resp.StatusCode == http.StatusUnauthorized && !wantsPassword(resp):
		todo = `: show it what lets you in, as in curl -H "Authorization: Bearer TOKEN" ` + throughCurl
	case resp.StatusCode == http.StatusUnauthorized:
		todo = ": it wants a name and a password, as in http://NAME:PASSWORD@HOST:PORT"
	case resp.StatusCode == http.StatusProxyAuthRequired:
		todo = ": the proxy wants a name and a password, as in HTTP_PROXY=http://NAME:PASSWORD@HOST:PORT"
	case resp.StatusCode == http.StatusBadRequest && strings.Contains(told, "HTTP request to an HTTPS server"):
		return badAnswer{false, errors.New("this server speaks TLS: write https:// in front of its address")}
	case resp.StatusCode == http.StatusBadRequest && strings.Contains(told, "WriteTimeout"):
		todo = told + "; -seconds 1 takes a shorter trace"
	case resp.StatusCode == http.StatusInternalServerError && strings.Contains(told, "already enabled"):
		return badAnswer{false, fmt.Errorf("somebody takes a trace of it just now, and there can be one at a time%s; try again when that has ended", told)}
	default:
		text, todo = fmt.Sprintf("the answer at %s is %s", printable(resp.Request.URL.Path), status), told
	}
	return badAnswer{resp.StatusCode == http.StatusNotFound || resp.StatusCode/100 == 3, errors.New(text + todo)}
}

// wantsPassword reports whether a name and a password might help.
func wantsPassword(resp *http.Response) bool {
	ways := resp.Header.Values("Www-Authenticate")
	return len(ways) == 0 || slices.ContainsFunc(ways, func(way string) bool { return strings.HasPrefix(strings.ToLower(way), "basic") })
}

// webPage is the error of an answer that is one, as some servers send for all that they don't know.
func webPage(resp *http.Response) badAnswer {
	at := resp.Request.URL
	if resp.Request.Response != nil {
		return badAnswer{false, fmt.Errorf("it sends us to a web page, %s; perhaps you have to log in, and its admin address is another one", printable(at.Redacted()))}
	}
	return badAnswer{true, fmt.Errorf("the answer at %s is a web page, neither a graph nor a trace", printable(at.Path))}
}

// moved is the error of an answer that sends bgdump to where the request failed.
func moved(ctx context.Context, failed *url.Error) badAnswer {
	to := failed.URL
	if at, err := url.Parse(to); err == nil {
		to = at.Scheme + "://" + at.Host
	}
	return badAnswer{false, fmt.Errorf("it sends us to %s, which fails: %w", printable(to), cmp.Or(context.Cause(ctx), failed.Err))}
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// firstLine is how a server explains a status, if it does so in plain text.
func firstLine(resp *http.Response) string {
	if kind := mediaType(resp); kind != "text/plain" && kind != "" {
		return ""
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return ": " + clip(printable(string(line)), 200)
}

// requestError reports in plain words why there was no answer.
func (u *urlSource) requestError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var request *url.Error
	proxy := ""
	if errors.As(err, &request) {
		err = request.Err // the source is named by the caller
		proxy = u.proxyOf(request.URL)
	}
	var name *net.DNSError
	var unverified *tls.CertificateVerificationError
	switch {
	case proxy != "" && (errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &name)):
		return fmt.Errorf("the proxy %s does not answer (%w); NO_PROXY lists the hosts to ask without it", proxy, err)
	case errors.As(err, &unverified):
		return fmt.Errorf("%w; on Linux SSL_CERT_FILE names a file with certificates to trust, elsewhere the system has a list; or curl -k "+throughCurl, err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return errors.New("this server does not speak TLS: write http:// in front of its address")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("no program listens there (connection refused); does the program run, and serve net/http/pprof or its admin pages (knot -admin) at that address?")
	case u.answered.Load() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return errors.New("the connection was closed before there was an answer, though it has answered before; the program may have ended, or a time limit of its server or of a proxy is shorter than the trace")
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "malformed HTTP") || strings.Contains(err.Error(), "readLoopPeekFail"): // it spoke first
		return errors.New("what listens there does not speak HTTP; profiles may have an address of their own")
	case errors.As(err, &name):
		return fmt.Errorf("the name %s is not known: %w", printable(name.Name), err)
	}
	return err
}

// proxyOf names the proxy that a URL is asked through, "" if there is none.
func (u *urlSource) proxyOf(address string) string {
	at, err := url.Parse(address)
	if err != nil || u.transport.Proxy == nil {
		return ""
	}
	proxy, err := u.transport.Proxy(&http.Request{URL: at})
	if err != nil || proxy == nil {
		return ""
	}
	return printable(proxy.Redacted())
}
