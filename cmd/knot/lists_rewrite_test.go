package main

// rewriteLists are about redirects and rewrites.
var rewriteLists = []listGroup{
	{
		name: "redirects", config: `[[site]]
root = 'ROOT'
[[site.redirect]]
path = "/add"
to = "http://example.com/?c=d"
[[site.redirect]]
path = "/no"
to = "http://example.com/?c=d"
query = false
[[site.redirect]]
path = "/301"
to = "/redirect"
status = 301
[[site.redirect]]
path = "/307"
to = "/redirect"
status = 307
[[site.redirect]]
path = "/static"
to = "http://example.com/blah%20%3Fblah"
[[site.redirect]]
pattern = '^/t4(/.*)$'
to = "http://example.com/t4$1"
[[site.redirect]]
pattern = '(?s)^/all(/.*)$'
to = "http://example.com/all$1"
[[site.redirect]]
pattern = '^/capture/(.*)$'
to = "/x?q=$1&$1"
[[site.redirect]]
prefix = "/t2"
to = "http://example.com/moved"
[[site.redirect]]
host = "old.test"
to = "http://new.test"
`,
		cases: []listed{
			{"rewrite", "GET /add", "302 | Location: http://example.com/?c=d"}, {"rewrite", "GET /add?a=b", "302 | Location: http://example.com/?c=d&a=b"}, {"rewrite", "GET /no?a=b", "302 | Location: http://example.com/?c=d"}, {"rewrite", "GET /\nHost: old.test", "302 | Location: http://new.test/"}, {"rewrite", "GET /?a=b\nHost: old.test", "302 | Location: http://new.test/?a=b"},
			{"rewrite", "POST /301\n\nbody", "301 | Location: /redirect"}, {"rewrite", "POST /307\n\nbody", "307 | Location: /redirect"}, {"rewrite", "HEAD /301", "301 | Location: /redirect"}, {"rewrite", "GET /capture/%25?a=b", "302 | Location: /x?q=%25&%25&a=b"}, {"rewrite", "GET /capture/a%26b%23c", "302 | Location: /x?q=a%26b%23c&a%26b%23c"},
			{"rewrite_unescape", "GET /t2/blah%20%3Fblah", "302 | Location: http://example.com/moved/blah%20%3Fblah"}, {"rewrite_unescape", "GET /t4/blah%20%3Fblah", "302 | Location: http://example.com/t4/blah%20%3Fblah"}, {"rewrite_unescape", "GET /static", "302 | Location: http://example.com/blah%20%3Fblah"}, {"rewrite_unescape", "GET /static?arg=blah", "302 | Location: http://example.com/blah%20%3Fblah?arg=blah"}, {"rewrite_unescape", "GET /t4/x%0D%0ASet-Cookie:a=b", "404 | !Set-Cookie"}, {"rewrite_unescape", "GET /all/x%0D%0ASet-Cookie:a=b", "302 | Location: http://example.com/all/x%0D%0ASet-Cookie:a=b | !Set-Cookie"}, {"rewrite_unescape", "GET /t4//evil.test/x", "302 | Location~ http://example.com/t4/"},
		},
	},
	{
		name: "rewrites", config: `[[site]]
root = 'ROOT'
error-pages = { 403 = '/sorry.html', 404 = '/none.html' }
[[site.rewrite]]
pattern = '^/capture/(.*)$'
to = "/echo?c=$1"
[[site.rewrite]]
path = "/static"
to = "/echo/blah%20%3Fblah"
[[site.rewrite]]
path = "/first"
to = "/second"
[[site.rewrite]]
path = "/second"
to = "/echo/second"
[[site.rewrite]]
path = "/file"
to = "/f.html"
query = false
[[site.access]]
match = "/return403"
action = "deny"
[[site.access]]
match = "/return404"
action = "deny"
status = 404
[[site.access]]
match = "/return410"
action = "deny"
status = 410
[[site.proxy]]
match = "/echo**"
to = ["BACKEND"]
`,
		files: map[string]string{"f.html": "file", "sorry.html": "<p>sorry</p>", "none.html": "<p>none</p>"},
		cases: []listed{
			{"rewrite", "GET /capture/%25?a=b", "200 | ~GET /echo?c=%25&a=b\n"}, {"rewrite", "GET /capture/a%20b%26d", "200 | ~GET /echo?c=a+b%26d\n"}, {"rewrite", "GET /static", "200 | ~GET /echo/blah%20%3Fblah\n"}, {"rewrite", "GET /first", "404"}, {"rewrite", "GET /second", "200 | ~GET /echo/second\n"}, {"rewrite", "GET /file?x", "200 | =file"},
			{"rewrite", "GET /return403", "403 | =<p>sorry</p>"}, {"rewrite", "GET /return410", "410 | !~sorry"}, {"http_error_page", "GET /return404", "404 | =<p>none</p> | Content-Type: text/html; charset=utf-8"}, {"http_error_page", "HEAD /return404", "404 | Content-Length: 11"}, {"http_error_page", "GET /none?x", "404 | =<p>none</p>"}, {"http_error_page", "GET /none\nRange: bytes=0-1", "404 | =<p>none</p>"}, {"http_error_page", "GET /none\nIf-None-Match: *", "404 | =<p>none</p>"},
		},
	},
}
