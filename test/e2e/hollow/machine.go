//go:build hollow && !kubernetes_1.36

package main

import (
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
)

// machine is the hardware that the kubelet sees.
type machine struct {
	*cadvisortest.Fake
	cores int
	mem   uint64
}

// MachineInfo returns the size of the machine.
func (m *machine) MachineInfo(klog.Logger) (*cadvisorapi.MachineInfo, error) {
	return &cadvisorapi.MachineInfo{NumCores: m.cores, MemoryCapacity: m.mem, BootID: "boot", SystemUUID: m.NodeName,
		MachineID: m.NodeName}, nil
}
