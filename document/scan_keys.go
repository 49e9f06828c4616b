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
// Beyond manyKeys keys, and as soon as a key has unusual escapes, keys are looked up in a map instead, so that the cost
// is always linear in the length of the object.
func (s *scanner) isNew(in *level, at int) bool {
	e, keys := &s.entries[at], s.many[in.at]
	if keys == nil {
		key, count, escaped := s.raw[e.keyStart:e.keyEnd], 0, e.escapes == unusual
		for i := in.at + 1; i < at; i = int(s.entries[i].next) {
			before := &s.entries[i]
			if bytes.Equal(s.raw[before.keyStart:before.keyEnd], key) {
				return false
			}
			count++
		}
		if count < manyKeys && !escaped {
			return true
		}
		keys = s.allKeys(in, at)
	}
	in.keys = ^uint64(0) // all further keys come here
	key := s.keyOf(e)
	known := keys[key]
	keys[key] = true
	return !known
}

// allKeys returns the keys of the object that is scanned before the entry at, in a map that isNew uses from now on.
func (s *scanner) allKeys(in *level, at int) map[string]bool {
	keys := map[string]bool{}
	for i := in.at + 1; i < at; i = int(s.entries[i].next) {
		keys[s.keyOf(&s.entries[i])] = true
	}
	if s.many == nil {
		s.many = map[int]map[string]bool{}
	}
	s.many[in.at] = keys
	return keys
}
