// Package contenttype has the content types of files by the endings of their names. Its function may be called from any goroutine.
package contenttype

import (
	"mime"
	"path"
	"strings"
)

// Unknown is the type of files whose name says nothing.
const Unknown = "application/octet-stream"

// known is what the web uses, so that what is served does not depend on
// the machine. Text is UTF-8.
var known = map[string]string{
	".aac":         "audio/aac",
	".atom":        "application/atom+xml",
	".avif":        "image/avif",
	".bmp":         "image/bmp",
	".bz2":         "application/x-bzip2",
	".css":         "text/css; charset=utf-8",
	".csv":         "text/csv; charset=utf-8",
	".epub":        "application/epub+zip",
	".flac":        "audio/flac",
	".gif":         "image/gif",
	".gz":          "application/gzip",
	".htm":         "text/html; charset=utf-8",
	".html":        "text/html; charset=utf-8",
	".ico":         "image/x-icon",
	".ics":         "text/calendar; charset=utf-8",
	".jpeg":        "image/jpeg",
	".jpg":         "image/jpeg",
	".js":          "text/javascript; charset=utf-8",
	".json":        "application/json",
	".jsonld":      "application/ld+json",
	".jxl":         "image/jxl",
	".log":         "text/plain; charset=utf-8",
	".m4a":         "audio/mp4",
	".map":         "application/json",
	".md":          "text/markdown; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".mp3":         "audio/mpeg",
	".mp4":         "video/mp4",
	".ogg":         "audio/ogg",
	".ogv":         "video/ogg",
	".opus":        "audio/opus",
	".otf":         "font/otf",
	".pdf":         "application/pdf",
	".png":         "image/png",
	".rss":         "application/rss+xml",
	".svg":         "image/svg+xml",
	".tar":         "application/x-tar",
	".tif":         "image/tiff",
	".tiff":        "image/tiff",
	".tsv":         "text/tab-separated-values; charset=utf-8",
	".ttf":         "font/ttf",
	".txt":         "text/plain; charset=utf-8",
	".vtt":         "text/vtt; charset=utf-8",
	".wasm":        "application/wasm",
	".wav":         "audio/wav",
	".webm":        "video/webm",
	".webmanifest": "application/manifest+json",
	".webp":        "image/webp",
	".woff":        "font/woff",
	".woff2":       "font/woff2",
	".xhtml":       "application/xhtml+xml",
	".xml":         "text/xml; charset=utf-8",
	".xz":          "application/x-xz",
	".zip":         "application/zip",
	".zst":         "application/zstd",
}

// Of returns the content type of a file with this name, or path, by its ending, in any case; Unknown if that
// says nothing. Package mime is asked about endings that the table does not have.
func Of(name string) string {
	ending := strings.ToLower(path.Ext(name))
	if ctype, ok := known[ending]; ok {
		return ctype
	}
	if ctype := mime.TypeByExtension(ending); ctype != "" {
		return ctype
	}
	return Unknown
}
