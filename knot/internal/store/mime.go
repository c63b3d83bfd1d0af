package store

import (
	"bytes"
	"mime"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

const unknownType = "application/octet-stream"

// contentTypes is what the web uses, so that what is served does not depend on
// the machine. Text is UTF-8.
var contentTypes = map[string]string{
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

// ContentType goes by the extension, in any case; for one that the table does
// not have it asks package mime.
func ContentType(name []byte) string {
	name = name[bytes.LastIndexByte(name, '/')+1:]
	dot := bytes.LastIndexByte(name, '.')
	if dot < 0 || len(name)-dot > 16 {
		return unknownType
	}
	var lower [16]byte
	ext := lower[:copy(lower[:], name[dot:])]
	for i, ch := range ext {
		ext[i] = h1.LowerByte(ch)
	}
	if ctype, ok := contentTypes[string(ext)]; ok {
		return ctype
	}
	if ctype := mime.TypeByExtension(string(ext)); ctype != "" {
		return ctype
	}
	return unknownType
}
