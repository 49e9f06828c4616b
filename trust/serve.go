package trust

import (
	"bytes"

	"usher.dev/usher/certs"
)

// Serve returns the certificate that a replica should serve, given the stored one: no replica changes from a
// certificate that every API server trusts to one that some do not, or to one without its name.
func (v View) Serve(stored certs.Pair) certs.Pair {
	switch {
	case !v.valid(stored) || bytes.Equal(stored.Cert, v.Served.Cert):
		return v.Served
	case v.valid(v.Served) && v.named(v.Served) && !v.named(stored):
		return v.Served
	case !v.valid(v.Served) || v.good(stored) || !v.good(v.Served):
		return stored
	}
	return v.Served
}
