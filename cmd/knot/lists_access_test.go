package main

// accessLists are about who may come, and how often.
var accessLists = []listGroup{
	{
		name: "access", config: `trust = ["127.0.0.1", "10.0.0.0/8"]
[[site]]
root = 'ROOT'
[[site.access]]
match = "/allow"
from = ["127.0.0.0/8"]
action = "allow"
[[site.access]]
match = "/deny"
action = "deny"
[[site.access]]
match = "/deny-unix"
from = ["unix:"]
action = "deny"
[[site.access]]
match = "/from"
not-from = ["192.0.2.0/24", "2001:db8::/32"]
action = "deny"
[[site.access]]
match = "/referer"
headers = { Referer = "~^https?://([^/]*\\.)?example\\.org(:\\d+)?(/|$)" }
action = "allow"
[[site.access]]
match = "/referer"
action = "deny"
[[site.access]]
match = "/cookie"
cookies = { in = "1" }
action = "allow"
[[site.access]]
match = "/cookie"
action = "deny"
[[site.proxy]]
match = "/told"
to = ["BACKEND"]
`,
		cases: []listed{
			{"access", "GET /allow", "404"}, {"access", "GET /deny", "403"}, {"access", "GET /deny-unix", "404"}, {"access", "GET /%64eny", "403"}, {"access", "GET /x/../deny", "403"}, {"access", "GET //deny", "403"},
			{"realip", "GET /from\nX-Forwarded-For: 192.0.2.1", "404"}, {"realip", "GET /from\nX-Forwarded-For: 198.51.100.1", "403"}, {"realip", "GET /from\nX-Forwarded-For: 192.0.2.1, 198.51.100.1", "403"}, {"realip", "GET /from\nX-Forwarded-For: 192.0.2.1, 10.0.1.1, 127.0.0.1", "404"}, {"realip", "GET /from\nX-Forwarded-For: 198.51.100.1\nX-Forwarded-For: 192.0.2.1", "404"}, {"realip", "GET /from\nX-Forwarded-For: 192.0.2.1\nX-Forwarded-For: 10.0.0.1", "404"}, {"realip", "GET /from\nX-Forwarded-For: 2001:DB8::1", "404"}, {"realip", "GET /from\nX-Forwarded-For: [2001:db8::1]:80", "404"}, {"realip", "GET /from\nX-Forwarded-For: unknown", "403"}, {"realip", "GET /from\nForwarded: for=192.0.2.1", "404"}, {"realip", "GET /from", "403"},
			{"realip_remote_addr", "GET /told\nX-Forwarded-For: 192.0.2.1", "200 | ~\nX-Forwarded-For: 192.0.2.1, 127.0.0.1\n"},
			{"referer", "GET /referer\nReferer: http://www.example.org", "404"}, {"referer", "GET /referer\nReferer: https://example.org:8080/uri", "404"}, {"referer", "GET /referer\nReferer: http://example.com/", "403"}, {"referer", "GET /referer\nReferer: http://example.org.evil.test/", "403"}, {"referer", "GET /referer\nReferer: example.org", "403"}, {"referer", "GET /referer", "403"}, {"referer", "GET /referer\nReferer: ", "403"}, {"referer", "GET /referer\nReferer: http://example.org/\nReferer: http://evil.test/", "403"},
			{"map", "GET /cookie\nCookie: in=1", "404"}, {"map", "GET /cookie\nCookie: a=b; in=1", "404"}, {"map", "GET /cookie\nCookie: in=2", "403"}, {"map", "GET /cookie\nCookie: in=1; in=2", "403"},
		},
	},
	{
		name: "passwords", config: "[[site]]\nroot = 'ROOT'\n[[site.password]]\nmatch = '/in/**'\nrealm = 'closed site'\nusers = 'DIR/users'\n",
		files: map[string]string{"in/x": "SEETHIS", "x": "open"},
		cases: []listed{
			{"auth_basic", "GET /in/x", "401 | WWW-Authenticate~ Basic realm=\"closed site\" | !~SEETHIS"}, {"auth_basic", "GET /in/x\nAuthorization: Basic YW5uOnA=", "200 | =SEETHIS"}, {"auth_basic", "GET /in/x\nAuthorization: basic YW5uOnA=", "200 | =SEETHIS"}, {"auth_basic", "GET /in/x\nAuthorization: Basic YW5uOng=", "401"}, {"auth_basic", "GET /in/x\nAuthorization: Basic Ym9iOnA=", "401"}, {"auth_basic", "GET /in/x\nAuthorization: Basic x", "401"}, {"auth_basic", "GET /in/x\nAuthorization: Basic", "401"}, {"auth_basic", "GET /in/x\nAuthorization: Bearer YW5uOnA=", "401"}, {"auth_basic", "GET /in/none", "401"}, {"auth_basic", "GET /in/none\nAuthorization: Basic YW5uOnA=", "404"}, {"auth_basic", "GET /x", "200 | =open"},
		},
	},
	{
		name: "forward-auth", config: `[[site]]
[[site.forward-auth]]
match = "/in/**"
to = ["BACKEND"]
path = "/auth"
pass = ["Say"]
copy = ["Remote-User"]
[[site.forward-auth]]
match = "/dead"
to = ["DEAD"]
[[site.cache]]
match = "/in/kept"
lifetimes = { 200 = "1m" }
[[site.header]]
match = "/**"
backend-remove = ["Say"]
[[site.proxy]]
to = ["BACKEND"]
`,
		cases: []listed{
			{"auth_request", "GET /in/x\nSay: 204", "200 | ~GET /in/x\n"}, {"auth_request", "GET /in/x\nSay: 401|WWW-Authenticate: Basic realm=\"restricted\"", "401 | WWW-Authenticate: Basic realm=\"restricted\""}, {"auth_request", "GET /in/x\nSay: 403|=no", "403 | =no"}, {"auth_request", "GET /in/x\nSay: 401|WWW-Authenticate: foo|WWW-Authenticate: bar", "401 | WWW-Authenticate: foo, bar"},
			{"auth_request", "GET /in/x\nSay: 500", "500 | !~GET /in"}, {"auth_request", "POST /in/x\nSay: 200|Remote-User: ann\n\nbody", "200 | ~POST /in/x\n | ~\nRemote-User: ann\n | ~\n\nbody"}, {"auth_request", "POST /in/x\nSay: 401\n\nbody", "401"}, {"auth_request", "POST /in/x\nTransfer-Encoding: chunked\nSay: 200\n\n4\r\nbody\r\n0\r\n\r\n", "200 | ~\n\nbody"}, {"auth_request", "GET /dead", "502"}, {"auth_request", "GET /out", "200 | ~GET /out\n"},
			{"auth_request_set", "GET /in/x\nSay: 200|Remote-User: ann\nRemote-User: root", "200 | ~\nRemote-User: ann\n | !~root"}, {"auth_request_set", "GET /in/x\nSay: 200\nRemote-User: root", "200 | !~root"},
			{"auth_request", "GET /in/kept\nSay: 200", "200 | Cache-Status~ stored"}, {"auth_request", "GET /in/kept\nSay: 200", "200 | Cache-Status~ hit"}, {"auth_request", "GET /in/kept\nSay: 401", "401"},
		},
	},
	satisfying("all", []listed{
		{"auth_request_satisfy", "GET /allow\nSay: 200", "200"}, {"auth_request_satisfy", "GET /allow\nSay: 401", "401"}, {"auth_request_satisfy", "GET /allow\nSay: 403", "403"}, {"auth_request_satisfy", "GET /deny\nSay: 200", "403"}, {"auth_request_satisfy", "GET /deny\nSay: 401", "403"},
		{"auth_request_satisfy", "GET /basic\nSay: 200", "401"}, {"auth_request_satisfy", "GET /basic\nSay: 403", "401"}, {"auth_request_satisfy", "GET /basic\nSay: 200\nAuthorization: Basic YW5uOnA=", "200"}, {"auth_request_satisfy", "GET /basic\nSay: 403\nAuthorization: Basic YW5uOnA=", "403"},
	}),
	satisfying("any", []listed{
		{"auth_request_satisfy", "GET /allow\nSay: 200", "200"}, {"auth_request_satisfy", "GET /allow\nSay: 401", "200"}, {"auth_request_satisfy", "GET /allow\nSay: 403", "200"}, {"auth_request_satisfy", "GET /deny\nSay: 200", "200"}, {"auth_request_satisfy", "GET /deny\nSay: 401", "401"}, {"auth_request_satisfy", "GET /deny\nSay: 403", "403"},
		{"auth_request_satisfy", "GET /basic\nSay: 200", "200"}, {"auth_request_satisfy", "GET /basic\nSay: 401", "401"}, {"auth_request_satisfy", "GET /basic\nSay: 403", "401"}, {"auth_request_satisfy", "GET /basic\nSay: 403\nAuthorization: Basic YW5uOnA=", "200"},
	}),
	{
		name: "limits", config: `[[site]]
[[site.limit]]
match = "/one"
key = ["path"]
rate = "1/h"
burst = 2
[[site.limit]]
match = "/keyed"
key = ["header:A"]
rate = "1/h"
burst = 1
[[site.limit]]
match = "/keyed"
key = ["cookie:b"]
rate = "1/h"
burst = 3
[[site.proxy]]
to = ["BACKEND"]
`,
		cases: []listed{
			{"limit_req", "GET /one", "200 | RateLimit~ r=1"}, {"limit_req", "GET /one?x", "200"}, {"limit_req", "GET /one", "429 | Retry-After: 3600 | !~GET"}, {"limit_req", "GET /%6fne", "429"}, {"limit_req", "GET /other", "200 | !RateLimit"},
			{"limit_req2", "GET /keyed\nA: 1\nCookie: b=1", "200"}, {"limit_req2", "GET /keyed\nA: 1\nCookie: b=2", "429"}, {"limit_req2", "GET /keyed\nA: 2\nCookie: b=1", "200"}, {"limit_req2", "GET /keyed\nA: 3\nCookie: b=1", "200"}, {"limit_req2", "GET /keyed\nA: 4\nCookie: b=1", "429"}, {"limit_req2", "GET /keyed\nA: 5\nCookie: b=2", "200"},
		},
	},
}

// satisfying is a group of a site that is satisfied by all or any of what it asks.
func satisfying(how string, cases []listed) listGroup {
	return listGroup{name: "satisfy " + how, cases: cases, config: `[[site]]
satisfy = "` + how + `"
[[site.access]]
match = "/allow"
action = "allow"
[[site.access]]
match = "/deny"
action = "deny"
[[site.password]]
match = "/basic"
realm = "in"
users = "DIR/users"
[[site.forward-auth]]
to = ["BACKEND"]
pass = ["Say"]
[[site.header]]
match = "/**"
backend-remove = ["Say"]
[[site.proxy]]
to = ["BACKEND"]
`}
}
