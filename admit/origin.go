package admit

import (
	"hash/fnv"
	"strings"
)

// Origin identifies what an object is a replica of: its workload. What holds for a percentage of the workloads is
// decided by a hash of it: every replica, retry, rollout and dry run agrees, and so do all replicas of usher.
type Origin struct{ Namespace, Kind, Name string }

// OriginOf returns the origin of an object: its controlling owner, or else its generateName, or else its name. kind is
// the origin's kind if the object has no such owner.
func OriginOf(kind, namespace string, object Meta) Origin {
	owner, ok := object.Controller()
	switch {
	case ok && owner.Kind == "ReplicaSet":
		return ReplicaSetOrigin(namespace, owner.Name, object.Label("pod-template-hash"))
	case ok:
		return Origin{namespace, owner.Kind, owner.Name}
	case object.GenerateName() != "":
		return Origin{namespace, kind, object.GenerateName()}
	}
	return Origin{namespace, kind, object.Name()}
}

// ReplicaSetOrigin returns the origin of a pod of a ReplicaSet: its name without the hash that changes with each
// rollout of a Deployment. hash is the pod's label pod-template-hash; without it the last part of the name is taken as
// the hash.
func ReplicaSetOrigin(namespace, name, hash string) Origin {
	base, ok := strings.CutSuffix(name, "-"+hash)
	if hash == "" || !ok {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			base = name[:i]
		}
	}
	return Origin{namespace, "ReplicaSet", base}
}

// Draw returns the number, 0 to 99, of an origin for what is rolled out under a name: FNV-1a, 64 bits, of
// name/namespace/kind/name, modulo 100. A percentage selects the origin if it is larger, so 1 selects one of a hundred
// workloads.
func (o Origin) Draw(name string) int {
	var memory [128]byte // enough for nearly all
	text := append(memory[:0], name...)
	for _, part := range [...]string{o.Namespace, o.Kind, o.Name} {
		text = append(append(text, '/'), part...)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	return int(sum.Sum64() % 100)
}
