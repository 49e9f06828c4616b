package kubetest

import (
	"errors"
	"net"
)

// OutsideAddress returns an address that is not loopback, which the API does not accept in EndpointSlices: that of the
// network of InOwnNetwork, or one of this machine.
func OutsideAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if ip, is := a.(*net.IPNet); is && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "", errors.Join(err, errors.New("this machine has no IPv4 address but that of loopback"))
}
