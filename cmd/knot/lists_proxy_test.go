package main

import "strings"

// proxyLists are about requests to backends and their responses.
var proxyLists = []listGroup{
	{
		name: "proxy", config: `max-body = "1KB"
[[site]]
root = 'ROOT'
error-pages = { 404 = '/sorry.html', 5xx = '/sorry.html', 401 = '/sorry.html' }
request-id = "X-Request-Id"
[[site.header]]
match = "/change/**"
backend-set = { If-Modified-Since = "never", X-Blah = "blah" }
backend-remove = ["X-Gone"]
remove = ["X-Hidden", "Server"]
[[site.body]]
match = "/large"
max = "64KB"
[[site.proxy]]
match = "/intercepted/**"
to = ["BACKEND"]
intercept = ["401", "404", "5xx"]
strip = "/intercepted"
[[site.proxy]]
match = "/dead"
to = ["DEAD"]
[[site.proxy]]
match = "/host"
to = ["BACKEND"]
host = "other.test"
forwarded = "both"
[[site.proxy]]
match = "/gzip"
to = ["BACKEND"]
compress = { min = "1B" }
[[site.proxy]]
to = ["DEAD", "BACKEND"]
`,
		files: map[string]string{"sorry.html": "<p>sorry</p>"},
		cases: []listed{
			{"proxy", "GET /", "200 | ~GET /\n | ~\nX-Forwarded-For: 127.0.0.1\n | ~\nX-Forwarded-Proto: http\n | ~\nVia: 1.1 knot\n"}, {"proxy", "HEAD /", "200 | ="}, {"proxy", "GET /\nX-Forwarded-For: 192.0.2.1", "200 | !~192.0.2.1"}, {"proxy", "GET /\nSay: 200|=AND-THIS", "200 | =AND-THIS"},
			{"proxy_next_upstream", "GET /", "200"}, {"proxy_next_upstream", "GET /dead", "502 | =<p>sorry</p>"}, {"proxy_non_idempotent", "POST /\n\nbody", "200 | ~\n\nbody"},
			{"proxy_merge_headers", "GET /change/x\nIf-Modified-Since: now\nX-Gone: yes\nx-BLAH: mine\nSay: 200|X-Hidden: yes|X-Shown: yes|Server: passed|Date: passed", "200 | !X-Hidden | X-Shown: yes | !Server"}, {"proxy_merge_headers", "GET /change/x\nIf-Modified-Since: now\nX-Gone: yes\nx-BLAH: mine", "200 | ~\nIf-Modified-Since: never\n | ~\nX-Blah: blah\n | !~Gone | !~mine"},
			{"http_headers_multi", "GET /\nX-Foo: foo\nX-Foo: bar\nCookie: foo=1\nCookie: bar=2", "200 | ~\nX-Foo: foo\nX-Foo: bar\n | ~\nCookie: foo=1\nCookie: bar=2\n"}, {"http_headers_multi", "GET /\nSay: 200|Set-Cookie: a=1|Set-Cookie: b=2|Link: foo|Link: bar", "200 | Set-Cookie: a=1, b=2 | Link: foo, bar"},
			{"ignore_invalid_headers", "GET /\nX_Bar: 1\nX-Foo: 2\n_a: 3\na.b: 4", "200 | !~Bar | ~\nX-Foo: 2\n | !~_a | !~a.b"}, {"proxy_if", "GET /intercepted/a%20b%2Fc?d", "200 | ~GET /a%20b%2Fc?d\n"}, {"proxy_if", "GET /a%20b/..;x", "400"},
			{"proxy_intercept_errors", "GET /intercepted/x\nSay: 500|=own", "500 | =<p>sorry</p>"}, {"proxy_intercept_errors", "GET /intercepted/x\nSay: 401|WWW-Authenticate: foo|WWW-Authenticate: bar|ETag: \"a\"", "401 | =<p>sorry</p> | WWW-Authenticate: foo, bar | !ETag"}, {"proxy_intercept_errors", "GET /x\nSay: 500|=own", "500 | =own"}, {"proxy_intercept_errors", "GET /intercepted/x\nSay: 403|=own", "403 | =own"}, {"proxy_intercept_errors", "HEAD /intercepted/x\nSay: 404|=own", "404 | ="},
			{"proxy_connection_headers", "GET /\nSay: 200|Upgrade: websocket", "200 | !Upgrade"}, {"proxy_connection_headers", "GET /\nSay: 426|Upgrade: HTTP/2.0", "426"}, {"proxy_connection_headers", "GET /\nConnection: X-Foo\nX-Foo: 1\nKeep-Alive: 300\nTE: gzip", "200 | !~X-Foo | !~Keep-Alive | !~gzip"},
			{"body", "POST /\n\n" + strings.Repeat("0123456789", 100), "200 | ~\n\n0123"}, {"body", "POST /\n\n" + strings.Repeat("0123456789", 200), "413"}, {"body", "POST /large\n\n" + strings.Repeat("0123456789", 2000), "200 | ~\nContent-Length: 20000\n"}, {"body", "POST /large\n\n" + strings.Repeat("0123456789", 7000), "413"}, {"body", "PUT /\nExpect: tea\n\nx", "417 200"},
			{"body_chunked", "POST /\nTransfer-Encoding: chunked\n\n4\r\nbody\r\n0\r\n\r\n", "200 | ~\n\nbody"}, {"body_chunked", "POST /\nTransfer-Encoding: chunked\n\n7d0\r\n" + strings.Repeat("0123456789", 200) + "\r\n0\r\n\r\n", "413"}, {"body_chunked", "POST /\nTransfer-Encoding: identity\n\nx", "400 501"},
			{"proxy_redirect", "GET /\nSay: 302|Location: /x|Refresh: 1; url=/y", "302 | Location: /x | Refresh: 1; url=/y"}, {"proxy_xar", "GET /\nSay: 200|X-Accel-Redirect: /sorry.html|=own", "200 | =own"}, {"proxy_cookie", "GET /\nSay: 200|Set-Cookie: a=1; Domain=x; Path=/y", "200 | Set-Cookie: a=1; Domain=x; Path=/y"},
			{"proxy_set_body", "GET /\n\nbody", "200 | ~\n\nbody"}, {"proxy_pass_request", "GET /host\nHost: h.test", "200 | ~\nHost: other.test\n | ~\nX-Forwarded-Host: h.test\n | ~\nForwarded: for=127.0.0.1;host=\"h.test\";proto=http\n"},
			{"request_id", "GET /\nX-Request-Id: mine", "200 | !~mine | ~\nX-Request-Id: "}, {"gzip", "GET /gzip\nAccept-Encoding: gzip\nSay: 200|Content-Type: text/html|ETag: \"a\"|Accept-Ranges: bytes|=" + strings.Repeat("x", 3000), "200 | Content-Encoding: gzip | Vary: Accept-Encoding | !Accept-Ranges | ETag~ W/"}, {"gzip", "GET /gzip\nAccept-Encoding: gzip\nSay: 200|Content-Type: text/html|Content-Encoding: br|=own", "200 | Content-Encoding: br | =own"}, {"gzip", "GET /gzip\nAccept-Encoding: gzip\nSay: 200|Content-Type: image/png|=" + strings.Repeat("x", 3000), "200 | !Content-Encoding"},
			{"gunzip", "GET /\nAccept-Encoding: identity\nSay: 200|Content-Encoding: gzip|=own", "200 | Content-Encoding: gzip"}, {"not_modified_proxy", "GET /\nIf-None-Match: \"a\"\nSay: 200|ETag: \"a\"|=own", "200 | =own"}, {"not_modified_proxy", "GET /\nIf-Unmodified-Since: Mon, 28 Sep 1970 06:00:00 GMT\nSay: 200|Last-Modified: Mon, 28 Sep 2020 06:00:00 GMT|=own", "200 | =own"}, {"proxy_force_ranges", "GET /\nRange: bytes=1-\nSay: 200|=own", "200 | =own"}, {"proxy_force_ranges", "GET /\nRange: bytes=1-\nSay: 206|Content-Range: bytes 1-2/3|=wn", "206 | Content-Range: bytes 1-2/3 | =wn"},
		},
	},
}

// rawLists are about responses of backends that are wrong, or at the edge of it.
var rawLists = []listGroup{
	{
		name: "responses", config: `[[site]]
[[site.cache]]
lifetimes = { 200 = "1m" }
[[site.proxy]]
match = "/cold/**"
strip = "/cold"
to = ["RAW"]
[[site.proxy]]
to = ["RAW"]
`,
		raw: map[string]string{
			"/ok": "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nSEE-THIS", "/extra": "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nSEE-THIS-BUT-NOT-THIS", "/short": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nSEE-THIS", "/empty": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", "/zero": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nNOT-THIS",
			"/until-end": "HTTP/1.0 200 OK\r\n\r\nSEE-THIS", "/chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSEE-THIS\r\n0\r\n\r\n", "/chunked-extra": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSEE-THIS\r\n0\r\n\r\nzzz", "/chunked-short": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSEE-THIS\r\n", "/chunked-cut": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nSEE-THIS",
			"/bad-length": "HTTP/1.1 200 OK\r\nContent-Length: foo\r\n\r\nx", "/two-lengths": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "/coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: foo\r\n\r\nx", "/two-codings": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "/length-and-coding": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "/coding-and-length": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "/two-expires": "HTTP/1.1 200 OK\r\nExpires: foo\r\nExpires: bar\r\nContent-Length: 0\r\n\r\n",
			"/only-hints": "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n", "/nothing": "", "/no-http": "hello\r\n\r\n", "/half-a-head": "HTTP/1.1 200 OK\r\nX-A: b", "/no-content": "HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\nNOT-THIS", "/not-modified": "HTTP/1.1 304 Not Modified\r\nContent-Length: 8\r\n\r\n", "/status": "HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok", "/folded": "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", "/upgraded": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		},
		cases: []listed{
			{"proxy_unfinished", "GET /short", "200 502 | torn"}, {"proxy_unfinished", "GET /short", "200 502 | !Age | torn"}, {"proxy_unfinished", "GET /chunked-short", "200 502 | torn"}, {"proxy_unfinished", "GET /chunked-cut", "200 502 | !Age | torn"}, {"proxy_unfinished", "GET /chunked-cut", "200 502 | !Age | torn"}, {"proxy_unfinished", "GET /empty", "200 502 | torn"}, {"proxy_unfinished", "HEAD /short", "200"}, {"proxy_unfinished", "GET /ok", "200 | =SEE-THIS"}, {"proxy_unfinished", "GET /chunked", "200 | =SEE-THIS"},
			{"proxy_extra_data", "GET /cold/extra", "200 | =SEE-THIS"}, {"proxy_extra_data", "GET /extra", "200 | =SEE-THIS"}, {"proxy_extra_data", "GET /extra", "200 | =SEE-THIS"}, {"proxy_extra_data", "GET /zero", "200 | ="}, {"proxy_extra_data", "GET /no-content", "204 | ="}, {"proxy_extra_data", "HEAD /extra", "200 | ="}, {"proxy_chunked_extra", "GET /chunked-extra", "200 | =SEE-THIS"}, {"proxy_noclose", "GET /until-end", "200 | =SEE-THIS"}, {"proxy_chunked", "GET /cold/chunked", "200 | =SEE-THIS"}, {"proxy_cache_chunked", "GET /chunked", "200 | =SEE-THIS | Cache-Status~ hit"},
			{"proxy_duplicate_headers", "GET /bad-length", "502"}, {"proxy_duplicate_headers", "GET /two-lengths", "502"}, {"proxy_duplicate_headers", "GET /coding", "502"}, {"proxy_duplicate_headers", "GET /two-codings", "502"}, {"proxy_duplicate_headers", "GET /length-and-coding", "502"}, {"proxy_duplicate_headers", "GET /coding-and-length", "502"}, {"proxy_duplicate_headers", "GET /two-expires", "200"},
			{"proxy_early_hints", "GET /only-hints", "103 502"}, {"proxy", "GET /nothing", "502"}, {"proxy", "GET /no-http", "502"}, {"proxy", "GET /half-a-head", "502"}, {"proxy", "GET /status", "502 999"}, {"proxy", "GET /folded", "502 200"}, {"proxy_upgrade", "GET /upgraded", "502"}, {"not_modified_proxy", "GET /cold/not-modified\nIf-None-Match: \"a\"", "304 | ="},
		},
	},
}

// cacheLists are about responses of backends that are kept.
var cacheLists = []listGroup{
	{
		name: "cache", config: `[[site]]
root = 'ROOT'
error-pages = { 403 = '/sorry.html' }
[[site.cache]]
match = "/valid/**"
lifetimes = { 200 = "1m", 404 = "1m" }
ignore-query = ["utm_*"]
[[site.cache]]
folder = 'DIR/kept'
[[site.proxy]]
to = ["BACKEND"]
intercept = ["403"]
`,
		files: map[string]string{"sorry.html": "<p>sorry</p>"},
		cases: []listed{
			{"proxy_cache", "GET /t\nSay: 200|Cache-Control: max-age=60|=SEE-THIS", "200 | =SEE-THIS | Cache-Status: knot; fwd=miss; stored"}, {"proxy_cache", "GET /t\nSay: 200|=other", "200 | =SEE-THIS | Cache-Status~ hit | Age: 0"}, {"proxy_cache", "HEAD /t", "200 | = | Content-Length: 8 | Cache-Status~ hit"}, {"proxy_cache", "GET /t\nRange: bytes=4-", "206 | =THIS | Content-Range: bytes 4-7/8"}, {"proxy_cache", "GET /t\nRange: bytes=0-2,4-", "200 206 | ~SEE | ~THIS"}, {"proxy_cache", "HEAD /t2\nSay: 200|Cache-Control: max-age=60|=SEE-THIS", "200"}, {"proxy_cache", "GET /t2\nSay: 200|Cache-Control: max-age=60|=SEE-THIS", "200 | =SEE-THIS | Cache-Status~ fwd="}, {"proxy_cache", "GET /empty\nSay: 200|Cache-Control: max-age=60|=", "200 | = | Cache-Status~ stored"}, {"proxy_cache", "GET /empty\nSay: 200|=other", "200 | = | Cache-Status~ hit"}, {"proxy_cache_range", "GET /r\nRange: bytes=4-\nSay: 200|Cache-Control: max-age=60|=SEE-THIS", "206 | =THIS"}, {"proxy_cache_range", "GET /r", "200 | =SEE-THIS | Cache-Status~ hit"}, {"proxy_cache_range", "GET /r\nRange: bytes=8-", "416"}, {"proxy_cache_convert_head", "HEAD /h\nSay: 200|Cache-Control: max-age=60", "200"}, {"proxy_cache_convert_head", "GET /h\nSay: 200|=GET", "200 | =GET"},
			{"proxy_cache_control", "GET /e\nSay: 200|Expires: Thu, 31 Dec 2037 23:55:55 GMT|Date: Mon, 28 Sep 1970 06:00:00 GMT|=1", "200 | Cache-Status~ stored"}, {"proxy_cache_control", "GET /e", "200 | =1 | Cache-Status~ hit"}, {"proxy_cache_control", "GET /big\nSay: 200|Cache-Control: max-age=99999999999999|=1", "200 | Cache-Status~ stored"}, {"proxy_cache_control", "GET /big", "200 | =1 | Cache-Status~ hit"}, {"proxy_cache_control", "GET /no\nSay: 200|Cache-Control: no-cache|Expires: Thu, 31 Dec 2037 23:55:55 GMT|=1", "200"}, {"proxy_cache_control", "GET /no\nSay: 200|=2", "200 | =2"}, {"proxy_cache_control", "GET /after\nSay: 200|Expires: Thu, 31 Dec 2037 23:55:55 GMT|Cache-Control: no-store|=1", "200 | Cache-Status: knot; fwd=miss"}, {"proxy_cache_control", "GET /after\nSay: 200|=2", "200 | =2"}, {"proxy_cache_control", "GET /multi\nSay: 200|Cache-Control: max-age=60|Cache-Control: no-store|=1", "200 | Cache-Status: knot; fwd=miss"}, {"proxy_cache_control", "GET /cookie\nSay: 200|Cache-Control: max-age=60|Set-Cookie: a=b|=1", "200 | Set-Cookie: a=b | Cache-Status: knot; fwd=miss"}, {"proxy_cache_control", "GET /cookie\nSay: 200|=2", "200 | =2"}, {"proxy_cache_control", "GET /private\nSay: 200|Cache-Control: private, max-age=60|=1", "200 | Cache-Status: knot; fwd=miss"}, {"proxy_cache_control", "GET /priority\nSay: 200|Cache-Control: max-age=0, s-maxage=60|=1", "200 | Cache-Status~ stored"}, {"proxy_cache_control", "GET /priority", "200 | =1 | Cache-Status~ hit"}, {"proxy_cache_control", "GET /xaccel\nSay: 200|X-Accel-Expires: 60|=1", "200 | Cache-Status: knot; fwd=miss"},
			{"proxy_cache_valid", "GET /valid/a\nSay: 200|=1", "200 | Cache-Status~ stored"}, {"proxy_cache_valid", "GET /valid/a", "200 | =1 | Cache-Status~ hit"}, {"proxy_cache_valid", "GET /valid/n\nSay: 404|=1", "404 | Cache-Status~ stored"}, {"proxy_cache_valid", "GET /valid/n", "404 | =1 | Cache-Status~ hit"}, {"proxy_cache_valid", "GET /valid/500\nSay: 500|=1", "500 | Cache-Status: knot; fwd=miss"}, {"proxy_cache_valid", "GET /x403\nSay: 403|Cache-Control: max-age=60|=own", "403 | =<p>sorry</p>"}, {"proxy_cache_valid", "GET /x403", "403 | =<p>sorry</p> | Cache-Status~ hit"}, {"proxy_cache_bypass", "GET /t\nCache-Control: no-cache\nSay: 200|Cache-Control: max-age=60|=NOOP", "200 | =NOOP"}, {"proxy_cache_bypass", "GET /t", "200 | =NOOP | Cache-Status~ hit"}, {"proxy_cache_variables", "GET /valid/a?utm_source=x", "200 | =1 | Cache-Status~ hit"}, {"proxy_cache_variables", "GET /valid/a?b\nSay: 200|=2", "200 | =2"},
			{"proxy_cache_vary", "GET /v\nX-Lang: de\nSay: 200|Cache-Control: max-age=60|Vary: X-Lang|=de", "200 | =de | Cache-Status~ stored"}, {"proxy_cache_vary", "GET /v\nX-Lang: de", "200 | =de | Cache-Status~ hit"}, {"proxy_cache_vary", "GET /v\nX-Lang: fr\nSay: 200|Cache-Control: max-age=60|Vary: X-Lang|=fr", "200 | =fr | Cache-Status~ stored"}, {"proxy_cache_vary", "GET /v\nX-Lang: fr", "200 | =fr | Cache-Status~ hit"}, {"proxy_cache_vary", "GET /v\nX-Lang: de", "200 | =de | Cache-Status~ hit"}, {"proxy_cache_vary", "GET /v\nSay: 200|Vary: X-Lang|=none", "200 | =none"}, {"proxy_cache_vary", "GET /star\nSay: 200|Cache-Control: max-age=60|Vary: *|=1", "200 | Cache-Status: knot; fwd=miss"}, {"proxy_cache_vary", "GET /multi-vary\nX-A: foo\nX-A: bar\nSay: 200|Cache-Control: max-age=60|Vary: X-A|=1", "200 | Cache-Status~ stored"}, {"proxy_cache_vary", "GET /multi-vary\nX-A: foo, bar", "200 | =1 | Cache-Status~ hit"}, {"proxy_cache_vary", "GET /multi-vary\nX-A: foobar\nSay: 200|Vary: X-A|=2", "200 | =2"},
			{"not_modified_proxy", "GET /c\nSay: 200|Cache-Control: max-age=60|ETag: \"a\"|Last-Modified: Mon, 28 Sep 2020 06:00:00 GMT|=1", "200 | Cache-Status~ stored"}, {"not_modified_proxy", "GET /c\nIf-None-Match: \"a\"", "304 | ETag: \"a\" | Cache-Status~ hit"}, {"not_modified_proxy", "GET /c\nIf-Modified-Since: Mon, 28 Sep 2020 06:00:00 GMT", "304 | Cache-Status~ hit"}, {"not_modified_proxy", "GET /c\nIf-None-Match: \"b\"\nIf-Modified-Since: Mon, 28 Sep 2020 06:00:00 GMT", "200 | =1"}, {"range_clearing", "GET /c\nRange: bytes=0-0\nIf-Range: \"b\"", "200 | =1"}, {"proxy_cache", "POST /c\n\nx", "200"}, {"proxy_cache", "GET /c\nSay: 200|=2", "200 | =2"},
		},
	},
}
