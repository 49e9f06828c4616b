package document

import "bytes"

// manyKeys is the number of keys of an object above which they are looked up in a map.
const manyKeys = 64

// hash hashes a key's length and three of its bytes, which distinguishes most keys of one object.
func hash(key []byte) uint32 {
	n := len(key)
	if n == 0 {
		return 0
	}
	return uint32(n)*7 ^ uint32(key[0])*31 ^ uint32(key[n/2])*131 ^ uint32(key[n-1])*17
}

// isNew reports whether the key of the entry at is new in the object that is scanned. One bit of each key's hash is
// enough to recognize most new keys, so that only the others come here, and are compared with the keys before them.
// Beyond manyKeys keys, and as soon as there is a second key and one has unusual escapes, keys are looked up in a map
// instead, so that the cost is always linear in the length of the object.
func (s *scanner) isNew(in *level, at int) bool {
	e := &s.entries[at]
	if at == in.at+1 { // the first key, with unusual escapes
		in.keys = allBits
		return true
	}
	if in.many == nil {
		key, count := s.raw[e.keyStart:e.keyEnd], 0
		for i := in.at + 1; i < at; i = int(s.entries[i].next) {
			before := &s.entries[i]
			if bytes.Equal(s.raw[before.keyStart:before.keyEnd], key) {
				return false
			}
			count++
		}
		if count < manyKeys && e.escapes != unusual && in.keys != allBits {
			return true
		}
		in.many = s.allKeys(in, at)
	}
	in.keys = allBits
	key := s.keyOf(e)
	known := in.many[key]
	in.many[key] = true
	return !known
}

// allBits makes all further keys of an object come to isNew.
const allBits = ^uint64(0)

// allKeys returns the keys of the object that is scanned before the entry at.
func (s *scanner) allKeys(in *level, at int) map[string]bool {
	keys := map[string]bool{}
	for i := in.at + 1; i < at; i = int(s.entries[i].next) {
		keys[s.keyOf(&s.entries[i])] = true
	}
	return keys
}
