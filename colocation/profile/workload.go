package profile

import (
	"hash/fnv"
	"strings"
)

// Workload identifies what a subject is a replica of. The probability of a profile is decided per workload, by a hash:
// every replica, retry, rollout and dry run agrees, and so do all replicas of usher.
type Workload struct{ Namespace, Kind, Name string }

// ReplicaSetWorkload returns the workload of a pod of a ReplicaSet: its name without the hash that changes with each
// rollout of a Deployment. hash is the pod's label pod-template-hash; without it the last part of the name is taken as
// the hash.
func ReplicaSetWorkload(namespace, name, hash string) Workload {
	base, ok := strings.CutSuffix(name, "-"+hash)
	if hash == "" || !ok {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			base = name[:i]
		}
	}
	return Workload{namespace, "ReplicaSet", base}
}

// Draw returns the number, 0 to 99, of a workload for a profile: FNV-1a, 64 bits, of profile/namespace/kind/name,
// modulo 100. The profile applies if its percentage is larger, so 1 selects one of a hundred workloads.
func Draw(profile string, w Workload) int {
	h := fnv.New64a()
	for i, part := range [...]string{profile, w.Namespace, w.Kind, w.Name} {
		if i > 0 {
			_, _ = h.Write([]byte{'/'})
		}
		_, _ = h.Write([]byte(part))
	}
	return int(h.Sum64() % 100)
}

func (p *Profile) draws(s Subject) bool {
	return p.percent == 100 || p.percent > 0 && Draw(p.Name, s.workload()) < p.percent
}

func (s Subject) workload() Workload {
	if s.Workload == nil {
		return Workload{}
	}
	return s.Workload()
}
