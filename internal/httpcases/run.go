package httpcases

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Client sends cases to a server.
type Client struct {
	Dial     func() (net.Conn, error)
	Pause    func()        // called at {pause}; nil: the parts are only written one by one
	Patience time.Duration // for a case; what has not ended then is a fault
	Tag      string        // the server's for /file; "" if it has none
	Modified string        // likewise
}

// Learn asks for /file.
func (c *Client) Learn() error {
	nc, err := c.Dial()
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(c.Patience))
	io.WriteString(nc, "HEAD "+FilePath+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: "HEAD"})
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HEAD %s: %s", FilePath, resp.Status)
	}
	c.Tag, c.Modified = resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	return nil
}

// Needs reports whether the case asks for something that the server's file does not have, so that it can't be tried.
func (c *Client) Needs(k *Case) bool {
	return strings.Contains(k.Send, "{etag}") && c.Tag == "" || strings.Contains(k.Send, "{modified}") && c.Modified == ""
}

// Run sends a case. It returns the outcome, and what was wrong with it, "" if nothing was.
func (c *Client) Run(k *Case) (outcome, fault string) {
	nc, err := c.Dial()
	if err != nil {
		return "", err.Error()
	}
	nc.SetDeadline(time.Now().Add(c.Patience))
	answered := make(chan bool)
	said := sync.OnceFunc(func() { close(answered) })
	sent := make(chan bool)
	go func() { c.send(nc, k, answered); close(sent) }()
	defer func() { nc.Close(); said(); <-sent }()
	method, _, _ := strings.Cut(strings.TrimLeft(k.Send, "\r\n"), " ")
	r := bufio.NewReader(nc)
	var got []string
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		said()
		if err != nil {
			got = append(got, ending(err))
			break
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			got = append(got, "torn")
		}
		seen := resp.Header.Get("Seen")
		if strings.Contains(seen, strconv.Quote(last)) {
			got = append(got, "keep")
			break
		}
		if strings.Contains(seen, strconv.Quote(smuggled)) {
			got = append(got, "smuggled")
		}
		if resp.StatusCode >= 200 {
			if fault == "" && len(got) < 2 {
				fault = k.wrong(resp, seen, string(body))
			}
			method = "GET"
		}
		got = append(got, strconv.Itoa(resp.StatusCode))
	}
	outcome = strings.Join(got, " ")
	if first, _, _ := strings.Cut(k.Want, " "); fault != "" && Allowed(outcome, k.Want) && !strings.HasPrefix(outcome, first) {
		fault = "" // of what is only asked for with the first outcome
	}
	return outcome, fault
}

func (c *Client) send(nc net.Conn, k *Case, answered <-chan bool) {
	text := strings.NewReplacer("{etag}", c.Tag, "{modified}", c.Modified).Replace(k.Send)
	if !k.End {
		text += "GET " + last + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	}
	for i, part := range strings.Split(text, "{pause}") {
		if i > 0 && c.Pause != nil {
			c.Pause()
		}
		if before, after, ok := strings.Cut(part, "{100}"); ok {
			io.WriteString(nc, before)
			<-answered
			part = after
		}
		io.WriteString(nc, part)
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok && k.End {
		half.CloseWrite()
	}
}

var statuses = regexp.MustCompile(`\b[1-5]\d\d\b`)

// Over has do answer the request of a case as one of HTTP/2 or HTTP/3, and returns what is wrong with the response, "" if nothing
// is. applies is false for cases about how HTTP/1.1 is written, which no such request can say.
func (c *Client) Over(k *Case, do func(*http.Request) (*http.Response, error)) (fault string, applies bool) {
	text := bufio.NewReader(strings.NewReader(strings.NewReplacer("{etag}", c.Tag, "{modified}", c.Modified, "{pause}", "", "{100}", "").Replace(k.Send)))
	r, err := http.ReadRequest(text)
	allowed := statuses.FindAllString(k.Want, -1)
	if err != nil || r.ProtoMinor == 0 || r.Host != "h" || strings.HasPrefix(r.Header.Get("Expect"), "100") || len(allowed) == 0 || allowed[0] >= "400" && allowed[0] != "412" && allowed[0] != "416" {
		return "", false
	}
	body, err := io.ReadAll(r.Body)
	if _, more := text.Peek(1); err != nil || more == nil {
		return "", false
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Te", "Trailer"} {
		if len(r.Header[name]) > 0 {
			return "", false
		}
	}
	again, err := http.NewRequest(r.Method, "https://"+r.Host+"/", bytes.NewReader(body))
	if err != nil || !strings.HasPrefix(r.RequestURI, "/") {
		return "", false
	}
	again.URL.Opaque, again.Header = "//"+r.Host+r.RequestURI, r.Header
	if len(body) == 0 {
		again.Body, again.ContentLength = nil, 0
	}
	resp, err := do(again)
	if err != nil {
		return err.Error(), true
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err.Error(), true
	case !slices.Contains(allowed, strconv.Itoa(resp.StatusCode)):
		return fmt.Sprintf("status %d, want one of %v", resp.StatusCode, allowed), true
	case resp.StatusCode >= 400 || strconv.Itoa(resp.StatusCode) != allowed[0]:
		return "", true
	}
	return k.wrong(resp, resp.Header.Get("Seen"), string(got)), true
}

// ending reports why there is no further response.
func ending(err error) string {
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return "waits"
	}
	if strings.Contains(err.Error(), "malformed") { // net/http has no type for it
		return "garbled"
	}
	return "close" // a reset too: the server need not read what follows
}

// wrong looks at the first final response.
func (k *Case) wrong(resp *http.Response, seen, body string) string {
	for _, line := range strings.Split(k.Head, "\n") {
		name, want, exact := strings.Cut(line, ": ")
		unwanted := strings.HasPrefix(name, "!")
		value := strings.Join(resp.Header.Values(strings.TrimPrefix(name, "!")), ", ")
		switch {
		case name == "":
		case unwanted && value != "":
			return fmt.Sprintf("there is %s: %s", name[1:], value)
		case !unwanted && value == "" || exact && value != want:
			return fmt.Sprintf("%s is %q, want %q", name, value, cmp.Or(want, "any"))
		}
	}
	_, read, known := strings.Cut(seen, `" `)
	switch {
	case k.Body == "":
	case strings.Contains(k.Send, " "+FilePath+" "):
		if body != k.Body {
			return fmt.Sprintf("the body is %q, want %q", body, k.Body)
		}
	case known && read != strconv.QuoteToASCII(k.Body):
		return fmt.Sprintf("the server has read %s, want %q", read, k.Body)
	}
	return ""
}

// Allowed reports whether an outcome is one of those in want. A server may close where it need not.
func Allowed(outcome, want string) bool {
	for one := range strings.SplitSeq(want, "|") {
		if stem, keeps := strings.CutSuffix(one, "keep"); Same(outcome, one) || keeps && stem != "" && outcome == stem+"close" {
			return true
		}
	}
	return false
}

// Same reports whether an outcome is one that is wanted.
func Same(outcome, one string) bool {
	before, open := strings.CutSuffix(one, "refused")
	rest, ok := strings.CutPrefix(outcome, before)
	if !open || !ok {
		return outcome == one
	}
	return rest == "close" || len(rest) == len("400 close") && (rest[0] == '4' || rest[0] == '5') && strings.HasSuffix(rest, " close")
}
