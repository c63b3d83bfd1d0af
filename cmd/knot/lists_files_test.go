package main

import "strings"

// fileLists are about paths, names of hosts, and files.
var fileLists = []listGroup{
	{
		name: "paths", config: "[[site]]\nroot = 'ROOT'\nlisting = true\n[[site.header]]\nmatch = '(?i)*.gif'\nset = { X-Kind = 'picture' }\nalways = true\n[[site.header]]\nmatch = '/foo'\nset = { X-Exact = 'foo' }\nalways = true\n",
		files: map[string]string{"index.html": "root", "foo/index.html": "foo", "foo/bar/index.html": "bar", "t.gif": "gif", "a b.txt": "blank", "%.txt": "percent", "foo/a+b&c=d;e.txt": "marks"},
		cases: []listed{
			{"http_uri", "GET /foo/bar%", "400"}, {"http_uri", "GET /foo/bar%1", "400"}, {"http_uri", "GET / /", "400"}, {"http_uri", "GET /\x02", "400"},
			{"http_uri", "GET /foo/bar/.?args", "200 | =bar"}, {"http_uri", "GET /foo/bar/..?args", "200 | =foo"}, {"http_uri", "GET /foo/bar/.", "200 | =bar"}, {"http_uri", "GET /foo/bar/..", "200 | =foo"},
			{"http_uri", "GET /foo/bar/.#frag", "400"}, {"http_uri", "GET http://h.test", "200 | =root"}, {"http_uri", "GET http://h.test/", "200 | =root"}, {"http_uri", "GET http://h.test?args", "200 | =root"},
			{"http_uri", "GET http://h.test:8080", "200 | =root"}, {"http_uri", "GET http://h.test:8080/foo/?args", "200 | =foo"}, {"http_uri", "GET /%02", "404"},
			{"http_uri", "GET /a%20b.txt", "200 | =blank"}, {"http_uri", "GET /%25.txt", "200 | =percent"}, {"http_uri", "GET /foo/a+b&c=d;e.txt", "200 | =marks"}, {"http_uri", "GET /%66oo/%62ar/", "200 | =bar"},
			{"merge_slashes", "GET /foo///bar/", "200 | =bar"}, {"merge_slashes", "GET //foo//bar//", "200 | =bar"}, {"merge_slashes", "GET /foo//./bar/", "200 | =bar"},
			{"http_location", "GET /t.gif", "200 | X-Kind: picture"}, {"http_location", "GET /t.GIF", "404 | X-Kind: picture"}, {"http_location", "GET /foo", "301 | X-Exact: foo | Location: /foo/"}, {"http_location", "GET /foobar", "404 | !X-Exact"}, {"http_location", "GET /foo/", "200 | !X-Exact"},
			{"http_location_auto", "GET /foo", "301 | Location: /foo/"}, {"http_location_auto", "GET /foo/bar?a=b", "301 | Location: /foo/bar/?a=b"},
			{"http_method", "TRACE /", "405 | Allow~ GET"}, {"http_method", "DELETE /t.gif", "405"}, {"http_method", "POST /t.gif\n\nx", "405"}, {"http_method", "OPTIONS /t.gif", "200 204 | Allow~ GET"}, {"http_method", "UNKNOWN /t.gif", "405 501"},
		},
	},
	{
		name: "hosts", config: "[[site]]\nhosts = ['www.example.com']\nroot = 'ROOT/www'\n[[site]]\nhosts = ['many.example.com', 'many2.example.com']\nroot = 'ROOT/many'\n[[site]]\nhosts = ['*.wc.example.com']\nroot = 'ROOT/star'\n[[site]]\nhosts = ['*.pref.wc.example.com']\nroot = 'ROOT/longer'\n" +
			"[[site]]\nhosts = ['*.dot.example.com', 'dot.example.com']\nroot = 'ROOT/dot'\n[[site]]\nhosts = ['123.40.56.78', '[abcd::ef98:0:7654:321]']\nroot = 'ROOT/address'\n[[site]]\nhosts = ['*']\nroot = 'ROOT/rest'\n",
		files: map[string]string{"www/index.html": "www", "many/index.html": "many", "star/index.html": "star", "longer/index.html": "longer", "dot/index.html": "dot", "address/index.html": "address", "rest/index.html": "rest"},
		cases: []listed{
			{"http_server_name", "GET /\nHost: xxx", "200 | =rest"}, {"http_server_name", "GET / HTTP/1.0\nHost: ", "200 400"}, {"http_server_name", "GET /\nHost: www.example.com", "200 | =www"}, {"http_server_name", "GET /\nHost: WWW.EXAMPLE.COM", "200 | =www"},
			{"http_server_name", "GET /\nHost: many2.example.com", "200 | =many"}, {"http_server_name", "GET /\nHost: www.wc.example.com", "200 | =star"}, {"http_server_name", "GET /\nHost: www.pref.wc.example.com", "200 | =longer"}, {"http_server_name", "GET /\nHost: a.b.wc.example.com", "200 | =star"},
			{"http_server_name", "GET /\nHost: wc.example.com", "200 | =rest"}, {"http_server_name", "GET /\nHost: www.dot.example.com", "200 | =dot"}, {"http_server_name", "GET /\nHost: dot.example.com", "200 | =dot"},
			{"http_host", "GET /\nHost: www.example.com:8080", "200 | =www"}, {"http_host", "GET /\nHost: www.example.com:", "200 | =www"}, {"http_host", "GET /\nHost: www.example.com.", "200 | =www"}, {"http_host", "GET /\nHost: www.example.com.:88", "200 | =www"},
			{"http_host", "GET http://WWW.example.com:10/\nHost: xxx", "200 | =www"}, {"http_host", "GET http://www.example.com./\nHost: xxx", "200 | =www"}, {"http_host", "GET /\nHost: 123.40.56.78:987", "200 | =address"}, {"http_host", "GET /\nHost: [abcd::ef98:0:7654:321]:80", "200 | =address"}, {"http_host", "GET http://[abcd::ef98:0:7654:321]:5/\nHost: xxx", "200 | =address"},
			{"http_host", "GET /\nHost: example.com.:1.2", "400"}, {"http_host", "GET /\nHost: 123.40.56.78:9000:80", "400"}, {"http_host", "GET /\nHost: [abcd::ef98:0:7654:321", "400"}, {"http_host", "GET /\nHost: extra[abcd::1]:98", "400"}, {"http_host", "GET /\nHost: example.com/\\:552", "400"}, {"http_host", "GET /\nHost: [abcd::1].:98", "400"}, {"http_host", "GET /\nHost: localhost\nHost: again", "400"}, {"http_host", "GET /\nHost: local\x02host", "400"}, {"http_host", "GET /\nHost: 123.49.0.78:98777", "400"},
		},
	},
	{
		name: "try", config: "[[site]]\nroot = 'ROOT'\ntry = ['$path', '/short', '/fallback.html']\n[[site]]\nhosts = ['folder.test']\nroot = 'ROOT'\ntry = ['$path/', '=404']\n[[site]]\nhosts = ['file.test']\nroot = 'ROOT'\ntry = ['$path', '=404']\n[[site]]\nhosts = ['status.test']\nroot = 'ROOT'\ntry = ['/none', '=418']\n[[site]]\nhosts = ['back.test']\nroot = 'ROOT'\ntry = ['$path', '/app?q=$path']\n[[site.proxy]]\nmatch = '/app'\nto = ['BACKEND']\n",
		files: map[string]string{"found.html": "SEE THIS", "fallback.html": "fallback", "dir/index.html": "index", "deep/er/x": "x"},
		cases: []listed{
			{"http_try_files", "GET /found.html", "200 | =SEE THIS"}, {"http_try_files", "GET /uri/notfound", "200 | =fallback"}, {"http_try_files", "GET /found.html?a=b", "200 | =SEE THIS"}, {"http_try_files", "HEAD /uri/notfound", "200 | Content-Length: 8"},
			{"http_try_files", "GET /found.html\nHost: file.test", "200 | =SEE THIS"}, {"http_try_files", "GET /dir\nHost: file.test", "404"}, {"http_try_files", "GET /dir/\nHost: folder.test", "200 | =index"}, {"http_try_files", "GET /dir\nHost: folder.test", "301 | Location: /dir/"}, {"http_try_files", "GET /found.html\nHost: folder.test", "404"},
			{"http_try_files", "GET /x\nHost: status.test", "418"}, {"http_try_files", "GET /un%20known?b=c\nHost: back.test", "200 | ~GET /app?q=%2Fun+known&b=c\n"}, {"http_try_files", "POST /found\nHost: back.test\n\nbody", "200 | ~POST /app?q=%2Ffound\n | ~\n\nbody"},
		},
	},
	{
		name: "index", config: "[[site]]\nroot = 'ROOT'\nindex = ['first.html', 'many.html', 'index.html']\n[[site]]\nhosts = ['list.test']\nroot = 'ROOT'\nlisting = true\nindex = ['none']\nhsts = 'max-age=60'\n",
		files: map[string]string{"index.html": "body", "many/many.html": "manybody", "many/index.html": "other", "no/x": "x", "test-file": strings.Repeat("x", 42), "test-dir/y": "", "test-escape-url-%": "", "test-escape-url2-?": "", "test-escape-html-<>&": "", "test-utf8-ффф": "", "test-'-quote": "", "test-\"-double": "", "test-colon:blah": "", "test-dir-escape-<>&/z": "", "test-file-link->test-file": "", "test-dir-link->test-dir": "", "out->/etc": "", "outfile->/etc/hostname": "", ".hidden": "x"},
		cases: []listed{
			{"index", "GET /", "200 | =body"}, {"index", "GET /no/", "403 404"}, {"index", "GET /many/", "200 | =manybody"}, {"index", "GET /not_found/", "404"}, {"index", "GET /index.html/", "404"},
			{"autoindex", "GET /\nHost: list.test", "200 | Content-Type: text/html; charset=utf-8 | ~href=\"./test-file\" | ~href=\"./test-dir/\" | ~test-escape-url-%25\" | ~test-escape-url2-%3F\" | ~test-escape-html-&lt;&gt;&amp; | ~test-utf8-ффф | ~href=\"./test-file-link\" | ~href=\"./test-dir-link/\" | !~href=\"test-colon:blah\" | !~hidden"},
			{"autoindex", "GET /test-dir-escape-%3C%3E&/\nHost: list.test", "200 | ~test-dir-escape-&lt;&gt;&amp;"},
			{"autoindex_format", "GET /?format=json\nHost: list.test", "200 | Content-Type~ application/json | ~\"size\":42 | ~test-utf8-ффф | ~test-'-quote | ~test-\\\"-double"},
			{"http_disable_symlinks", "GET /test-file-link", "200"}, {"http_disable_symlinks", "GET /outfile", "403 | !~/etc"}, {"http_disable_symlinks", "GET /out/hostname", "403"}, {"http_disable_symlinks", "GET /out/\nHost: list.test", "403"},
			{"http_absolute_redirect", "GET /many", "301 | Location: /many/"}, {"http_absolute_redirect", "GET /many?a=b", "301 | Location: /many/?a=b"}, {"http_absolute_redirect", "GET /test-dir-escape-%3C%3E&\nHost: list.test", "301 | Location: /test-dir-escape-%3C%3E&/"}, {"http_absolute_redirect", "GET //many", "301 | Location: /many/"},
			{"server_tokens", "GET /", "200 | !Server"}, {"server_tokens", "GET /none", "404 | !Server | !~knot"}, {"charset", "GET /", "200 | Content-Type: text/html; charset=utf-8"}, {"charset", "GET /test-file", "200 | Content-Type: application/octet-stream"},
		},
	},
	{
		name: "headers", config: "[[site]]\nroot = 'ROOT'\n[[site.header]]\nmatch = '/**'\nset = { X-Good = 'yes', Cache-Control = 'max-age=2048' }\n[[site.header]]\nmatch = '/**'\nset = { X-Always = 'yes' }\nalways = true\n[[site.header]]\nmatch = '/inner/**'\nset = { Cache-Control = 'no-cache' }\nremove = ['ETag']\n",
		files: map[string]string{"t.html": "good", "inner/t.html": "inner", "big.css": strings.Repeat("a { color: red }\n", 1000), "big.css.gz": "zipped"},
		cases: []listed{
			{"headers", "GET /t.html", "200 | X-Good: yes | X-Always: yes | Cache-Control: max-age=2048 | ETag~ \""}, {"headers", "GET /none", "404 | X-Always: yes | !X-Good | !Cache-Control"}, {"headers", "GET /inner/t.html", "200 | Cache-Control: no-cache | X-Good: yes | !ETag"},
			{"headers", "GET /t.html\nRange: bytes=0-1", "206 | X-Good: yes"}, {"headers", "GET /t.html\nRange: bytes=10-", "416 | !X-Good | X-Always: yes"}, {"headers", "GET /t.html\nIf-None-Match: *", "304 | X-Good: yes"},
			{"gzip", "GET /big.css\nAccept-Encoding: gzip", "200 | =zipped | Content-Encoding: gzip | Vary: Accept-Encoding | ETag~ \""}, {"gzip", "HEAD /big.css\nAccept-Encoding: gzip", "200 | Content-Encoding: gzip"}, {"gzip", "HEAD /big.css", "200 | !Content-Encoding | Vary: Accept-Encoding | Content-Length: 17000"}, {"gzip", "GET /big.css\nAccept-Encoding: gzip;q=0", "200 | !Content-Encoding"}, {"gzip", "GET /big.css\nAccept-Encoding: identity, *;q=0", "200 | !Content-Encoding"}, {"gzip", "GET /t.html\nAccept-Encoding: gzip", "200 | !Content-Encoding"},
			{"range_if_range", "GET /t.html\nRange: bytes=1-2\nIf-Range: \"wrong\"", "200 | =good | Last-Modified~ GMT"}, {"range_if_range", "GET /t.html\nRange: bytes=1-2\nIf-Range: Mon, 28 Sep 1970 06:00:00 GMT", "200 | =good"},
			{"range", "GET /big.css\nRange: bytes=0-9,-10", "206 | Content-Type~ multipart/byteranges; boundary= | ~Content-Range: bytes 0-9/17000 | ~Content-Range: bytes 16990-16999/17000"}, {"range_charset", "GET /big.css\nRange: bytes=0-9,-10", "206 | ~\nContent-Type: text/css; charset=utf-8\r\n"}, {"range", "GET /t.html\nRange: bytes=0-1,9-", "206 | =go"}, {"range", "GET /t.html\nRange: bytes=0-1,x-", "200 | =good"},
		},
	},
}
