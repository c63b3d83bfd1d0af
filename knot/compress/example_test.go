package compress_test

import (
	"fmt"
	"log"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/compress"
)

// Files are compressed as their clients ask for it, and kept so.
func Example() {
	files, err := knot.OpenFiles("../testdata/site", knot.FilesConfig{Codings: compress.Codings()})
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()
	server := knot.Server{Handler: files.Handle} // server.ListenAndServe serves it
	fmt.Println(server.Handler != nil)
	for _, c := range compress.Codings() {
		fmt.Println(c.Name)
	}
	// Output:
	// true
	// br
	// zstd
	// gzip
}
