module github.com/capriccio-go/capriccio/cmd/bgdump/web/browsertest

go 1.25.0

require github.com/capriccio-go/capriccio v0.0.0-00010101000000-000000000000

require github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe // indirect

replace github.com/capriccio-go/capriccio => ../../../..
