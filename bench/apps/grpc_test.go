package apps

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// echoes answers each message with itself, and "fail" with an error while the client goes on.
var echoes = grpc.ServiceDesc{ServiceName: "apps.Echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
	StreamName: "Echo", ServerStreams: true, ClientStreams: true,
	Handler: func(_ any, s grpc.ServerStream) error {
		for {
			var m wrapperspb.StringValue
			switch err := s.RecvMsg(&m); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			case m.Value == "fail":
				return status.Error(codes.Aborted, "as asked")
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	},
}}}

// TestGRPC: a server of grpc-go is an http.Handler, which reads and writes at the same time, sends trailers,
// and waits for its reader after it has closed the body.
func TestGRPC(t *testing.T) {
	onLoops(t, func(t *testing.T, loops int) {
		g := grpc.NewServer()
		g.RegisterService(&echoes, nil)
		conn := testenv.Need(grpc.NewClient("passthrough:///"+serve(t, loops, http.HandlerFunc(g.ServeHTTP)),
			grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		defer conn.Close()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() { testenv.Check(t, converse(t.Context(), conn, i%7, i%2 == 0)) })
		}
		all.Wait()
	})
}

// converse has n messages sent back, the last ones larger than a frame, and ends by itself or by an error of the server.
func converse(ctx context.Context, conn *grpc.ClientConn, n int, fails bool) error {
	s, err := conn.NewStream(ctx, &echoes.Streams[0], "/apps.Echo/Echo")
	if err != nil {
		return err
	}
	var got wrapperspb.StringValue
	for i := range n {
		sent := wrapperspb.String(strings.Repeat(fmt.Sprint(i), 5000*i))
		if err := s.SendMsg(sent); err != nil {
			return err
		}
		if err := s.RecvMsg(&got); err != nil || got.Value != sent.Value {
			return fmt.Errorf("message %d: %w, %d bytes of %d", i, err, len(got.Value), len(sent.Value))
		}
	}
	if fails {
		s.SendMsg(wrapperspb.String("fail"))
		if err := s.RecvMsg(&got); status.Code(err) != codes.Aborted {
			return fmt.Errorf("after fail: %w", err)
		}
		return nil
	}
	s.CloseSend()
	if err := s.RecvMsg(&got); err != io.EOF {
		return fmt.Errorf("at the end: %w", err)
	}
	return nil
}
