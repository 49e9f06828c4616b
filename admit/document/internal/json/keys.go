package json

import (
	"bytes"
	"hash/maphash"
)

// keyTable finds the members of one object by their keys. It is a hash table with open addressing that holds entries of
// a tape and no keys, so it takes 8 to 16 bytes for each member. A tape keeps those that the search for duplicate keys
// needed.
type keyTable struct {
	slots []uint32 // entries; 0, which is no member, where a slot is free
	used  int
}

// keySeed makes the hashes of keys unpredictable for clients.
var keySeed = maphash.MakeSeed()

// newKeyTable returns a table with room for a few keys: a document may have a table for every three of its values.
func newKeyTable() *keyTable { return &keyTable{slots: make([]uint32, 8)} }

// find returns the entry of the member with a key; false if there is none.
func (k *keyTable) find(t *Tape, key string) (uint32, bool) {
	for i := maphash.String(keySeed, key); ; i++ {
		at := k.slots[i%uint64(len(k.slots))]
		if at == 0 || t.isKey(&t.entries[at], key) {
			return at, at != 0
		}
	}
}

// add adds a member, and reports whether its key is new.
func (k *keyTable) add(t *Tape, at uint32) bool {
	if 2*k.used >= len(k.slots) {
		k.grow(t)
	}
	for i := t.hashOfKey(at); ; i++ {
		slot := &k.slots[i%uint64(len(k.slots))]
		if *slot == 0 {
			*slot = at
			k.used++
			return true
		}
		if t.sameKey(*slot, at) {
			return false
		}
	}
}

// grow doubles the number of slots.
func (k *keyTable) grow(t *Tape) {
	before := k.slots
	k.slots, k.used = make([]uint32, 2*len(before)), 0
	for _, at := range before {
		if at != 0 {
			k.add(t, at)
		}
	}
}

// hashOfKey returns the hash of a member's key.
func (t *Tape) hashOfKey(member uint32) uint64 {
	if e := &t.entries[member]; e.escapes() == plain {
		return maphash.Bytes(keySeed, t.raw[e.keyStart:e.keyEnd])
	}
	return maphash.String(keySeed, t.keyOf(&t.entries[member]))
}

// sameKey reports whether two members have the same key.
func (t *Tape) sameKey(a, b uint32) bool {
	one, other := &t.entries[a], &t.entries[b]
	if one.escapes() == plain && other.escapes() == plain {
		return bytes.Equal(t.raw[one.keyStart:one.keyEnd], t.raw[other.keyStart:other.keyEnd])
	}
	return t.keyOf(one) == t.keyOf(other)
}
