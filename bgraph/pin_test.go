package bgraph

import _ "github.com/google/pprof/profile"
