package cache

import (
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot"
)

// inner has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type inner interface {
	WhenGone(w *peerwatch.Watch, fn func())
	CopyHeader(name, value []byte)
	SendHead() error
	Fetch(head []byte, h knot.Handler, to ownctx.Receiver) (stop func())
	Passed() []knot.Header
}

func innerOf(x *knot.Ctx) inner { return ownctx.Of(x).(inner) }
