// Package apps has no code but tests: routers, frameworks and WebSocket libraries that were
// written for net/http run on Knot, in tasks, as they are. It is a module of its own, so that
// nobody else gets them.
package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	gorilla "github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// serve runs h on Knot with the given number of loops, and returns its address.
func serve(t *testing.T, loops int, h http.Handler, change ...func(*knot.Server)) string {
	t.Helper()
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(loops)))(t)
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	server := &knot.Server{Handler: knot.AdaptHTTP(h), H2C: true}
	for _, f := range change {
		f(server)
	}
	ended := make(chan error, 1)
	rt.Go(func() { ended <- server.Serve(ln) })
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
		<-ended
		testenv.Check(t, rt.Close())
	})
	return ln.Addr().String()
}

func onLoops(t *testing.T, fn func(t *testing.T, loops int)) {
	for _, loops := range []int{1, 2} {
		t.Run(fmt.Sprint(loops, " loops"), func(t *testing.T) { fn(t, loops) })
	}
}

// ask returns status and body.
func ask(t *testing.T, method, url, body string) string {
	t.Helper()
	r := testenv.Need(http.NewRequest(method, url, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	resp := testenv.Need(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	got := testenv.Need(io.ReadAll(resp.Body))(t)
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(got)))
}

type person struct {
	Name string `json:"name"`
}

// where is "task" in a task.
func where() string {
	if task.Current() == nil {
		return "goroutine"
	}
	return "task"
}

// routers have the same routes: a parameter and a query, JSON both ways, a stream that waits between
// its pieces, a panic under the framework's own recovery, what is not there.
var routers = map[string]func() http.Handler{
	"chi": func() http.Handler {
		r := chi.NewRouter()
		r.Use(middleware.RequestID, middleware.Recoverer, middleware.Compress(5))
		r.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, chi.URLParam(r, "name"), r.URL.Query().Get("q"), where())
		})
		r.Post("/json", func(w http.ResponseWriter, r *http.Request) {
			var p person
			if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
				http.Error(w, err.Error(), 400)
				return
			}
			json.NewEncoder(w).Encode(p)
		})
		r.Get("/stream", func(w http.ResponseWriter, r *http.Request) { stream(w, w.(http.Flusher).Flush) })
		r.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("in chi") })
		return r
	},
	"gin": func() http.Handler {
		gin.SetMode(gin.ReleaseMode)
		gin.DefaultErrorWriter = io.Discard
		r := gin.New()
		r.Use(gin.Recovery())
		r.GET("/hello/:name", func(c *gin.Context) { c.String(200, "%s%s%s", c.Param("name"), c.Query("q"), where()) })
		r.POST("/json", func(c *gin.Context) {
			var p person
			if err := c.ShouldBindJSON(&p); err != nil {
				c.String(400, "%v", err)
				return
			}
			c.JSON(200, p)
		})
		r.GET("/stream", func(c *gin.Context) { stream(c.Writer, c.Writer.Flush) })
		r.GET("/panic", func(*gin.Context) { panic("in gin") })
		return r
	},
	"echo": func() http.Handler {
		e := echo.New()
		e.Logger.SetOutput(io.Discard)
		e.Use(echomiddleware.Recover(), echomiddleware.Gzip())
		e.GET("/hello/:name", func(c echo.Context) error {
			return c.String(200, c.Param("name")+c.QueryParam("q")+where())
		})
		e.POST("/json", func(c echo.Context) error {
			var p person
			if err := c.Bind(&p); err != nil {
				return err
			}
			return c.JSON(200, p)
		})
		e.GET("/stream", func(c echo.Context) error { stream(c.Response(), c.Response().Flush); return nil })
		e.GET("/panic", func(echo.Context) error { panic("in echo") })
		return e
	},
}

func stream(w io.Writer, flush func()) {
	for i := range 5 {
		fmt.Fprintf(w, "data: %d\n\n", i)
		flush()
		task.Sleep(time.Millisecond)
	}
}

func TestRouters(t *testing.T) {
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			onLoops(t, func(t *testing.T, loops int) {
				url := "http://" + serve(t, loops, router())
				for _, c := range []struct{ method, path, body, want string }{
					{"GET", "/hello/you?q=1", "", "200 you1task"},
					{"POST", "/json", `{"name":"x"}`, `200 {"name":"x"}`},
					{"POST", "/json", `{"name"`, "400 "},
					{"GET", "/stream", "", "200 data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4"},
					{"GET", "/panic", "", "500 "},
					{"GET", "/missing", "", "404 "},
				} {
					if got := ask(t, c.method, url+c.path, c.body); !strings.HasPrefix(got, c.want) || got != c.want && !strings.HasSuffix(c.want, " ") {
						t.Errorf("%s: %q, want %q", c.path, got, c.want)
					}
				}
			})
		})
	}
}

// sockets answer each message with itself, in capitals.
var sockets = map[string]http.HandlerFunc{
	"gorilla": func(w http.ResponseWriter, r *http.Request) {
		up := gorilla.Upgrader{EnableCompression: true}
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil {
				return
			}
			if err := c.WriteMessage(kind, []byte(strings.ToUpper(string(message)))); err != nil {
				return
			}
		}
	},
	"coder": func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, []byte(strings.ToUpper(string(message)))); err != nil {
				return
			}
		}
	},
}

// TestWebSockets: many connections at a time, with messages small and large, most of which wait.
func TestWebSockets(t *testing.T) {
	for name, socket := range sockets {
		t.Run(name, func(t *testing.T) {
			onLoops(t, func(t *testing.T, loops int) {
				addr := serve(t, loops, socket)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				var all []*gorilla.Conn
				for range 50 {
					c, _, err := gorilla.DefaultDialer.DialContext(ctx, "ws://"+addr+"/", nil)
					testenv.Must(t, err)
					defer c.Close()
					all = append(all, c)
				}
				for _, message := range []string{"a", strings.Repeat("large ", 5000)} {
					for _, c := range all {
						testenv.Must(t, c.WriteMessage(gorilla.TextMessage, []byte(message)))
					}
					for _, c := range all {
						_, got, err := c.ReadMessage()
						if err != nil || string(got) != strings.ToUpper(message) {
							t.Fatalf("%d bytes, %v; want %d", len(got), err, len(message))
						}
					}
				}
				for _, c := range all {
					c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(gorilla.CloseNormalClosure, ""))
					if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, gorilla.CloseNormalClosure) {
						t.Errorf("at the end: %v", err)
					}
				}
			})
		})
	}
}
