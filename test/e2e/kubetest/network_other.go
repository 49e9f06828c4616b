//go:build !linux

package kubetest

// InOwnNetwork does nothing: only Linux has network namespaces.
func InOwnNetwork() error { return nil }
