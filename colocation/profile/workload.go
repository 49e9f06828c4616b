package profile

import (
	"hash/fnv"
	"strings"
)

// Workload names what a subject is a replica of. A profile's probability is decided per workload, by a hash: every
// replica, retry, rollout and dry run agrees, and so does every usher.
type Workload struct{ Namespace, Kind, Name string }

// ReplicaSetWorkload is the workload of a pod of a ReplicaSet: its name without the hash that each rollout of a
// Deployment changes. hash is the pod's label pod-template-hash; without it the last part of the name is taken for one.
func ReplicaSetWorkload(namespace, name, hash string) Workload {
	base, ok := strings.CutSuffix(name, "-"+hash)
	if hash == "" || !ok {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			base = name[:i]
		}
	}
	return Workload{namespace, "ReplicaSet", base}
}

// Draw is the number, 0 to 99, that a profile draws for a workload: FNV-1a, 64 bits, of profile/namespace/kind/name,
// modulo 100. The profile is applied if its percentage is larger, so that 1 is one of a hundred workloads (W2).
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
