package proxy

type records struct{ status byte }

func newFastCGI(f FastCGI) (wire, error) { return nil, nil }
