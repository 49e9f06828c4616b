package document

import (
	"encoding/json"
	"strings"
)

// resource.Quantity takes minutes and gigabytes for 1e-5000000, and no deadline stops it. The API server has parsed the quantities of
// what it knows; those in schemaless places, and in reviews of anybody else, are looked at before they are decoded.

// hostileQuantity finds a text that would take resource.Quantity long, in a place where Kubernetes has a quantity; "" if there is none.
func hostileQuantity(v *Value) string {
	if !mayBeHostile(v.Bytes()) {
		return ""
	}
	return hostileIn(decode(v), "", "")
}

// mayBeHostile tells quickly, for nearly all values, that no text in them is hostile.
func mayBeHostile(raw []byte) bool {
	digits := 0
	for i, c := range raw {
		switch {
		case c >= '0' && c <= '9' || c == '.':
			if digits++; digits > longest {
				return true
			}
		case (c == 'e' || c == 'E') && digits > 0 && hugeExponent(string(raw[i:min(len(raw), i+8)])):
			return true
		default:
			digits = 0
		}
	}
	return false
}

// longest is how many digits a quantity may have.
const longest = 64

// hugeExponent tells whether a text that begins with e has an exponent of more than two digits behind it.
func hugeExponent(text string) bool {
	digits := 0
	for _, c := range strings.TrimLeft(text[1:], "+-") {
		if c < '0' || c > '9' {
			break
		}
		digits++
	}
	return digits > 2
}

// hostileIn looks through what stands as name in parent.
func hostileIn(tree any, parent, name string) string {
	switch tree := tree.(type) {
	case object:
		for key, member := range tree {
			if text := hostileIn(member, name, key); text != "" {
				return text
			}
		}
	case []any:
		for _, element := range tree {
			if text := hostileIn(element, parent, name); text != "" {
				return text
			}
		}
	case string:
		return hostileText(tree, parent, name)
	case json.Number:
		return hostileText(string(tree), parent, name)
	}
	return ""
}

func hostileText(text, parent, name string) string {
	if !holdsQuantities(parent) && name != "sizeLimit" && name != "divisor" {
		return ""
	}
	if at := strings.IndexAny(text, "eE"); len(text) > longest || at >= 0 && hugeExponent(text[at:]) {
		return text
	}
	return ""
}

// holdsQuantities tells whether an object of that name is a resource list, in pods, nodes, reservations or quotas.
func holdsQuantities(name string) bool {
	switch name {
	case "requests", "limits", "overhead", "capacity", "allocatable", "allocated", "min", "max", "used", "hard":
		return true
	}
	return false
}
