package knot_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// A server whose handler is plain blocking code. It runs until its context
// ends; here the client ends it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	server := &knot.Server{
		Addr:      "127.0.0.1:0",
		Listening: func(addr net.Addr) { go client(addr, stop) },
		Handler: func(x *knot.Ctx) error {
			return x.SendString(200, "text/plain", "Hello, "+x.Path()[1:]+"!\n")
		},
	}
	if err := capriccio.Run(ctx, server.Run); err != nil {
		fmt.Println(err)
	}
	// Output: Hello, world!
}

func client(addr net.Addr, stop func()) {
	defer stop()
	resp, err := http.Get("http://" + addr.String() + "/world")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
}

// Serving a folder.
func ExampleOpenFiles() {
	files, err := knot.OpenFiles("testdata/site", knot.FilesConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()
	server := &knot.Server{Handler: files.Handle}
	fmt.Println(server.Close())
	// Output: <nil>
}

// A handler returns a Status, or any error, instead of writing an answer.
func ExampleStatus() {
	handler := func(x *knot.Ctx) error {
		if x.Path() != "/work" {
			return knot.Status(404)
		}
		// What blocks outside of the runtime is offloaded.
		var host string
		task.Offload(func() { host, _ = os.Hostname() })
		_, err := x.WriteString(host)
		return err
	}
	_ = knot.Server{Handler: handler}.Name
	fmt.Println(knot.Status(404))
	// Output: 404 Not Found
}
