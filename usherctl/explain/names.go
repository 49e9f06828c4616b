package explain

import (
	"encoding/json"
	"fmt"
	"strings"
)

// listOf is a list whose elements have names: the singular, and the fields that name an element.
type listOf struct {
	singular string
	keys     []string
}

// lists are the lists of Kubernetes whose elements are not named by their field name, or whose singular is not the
// list's name without an s. The keys tell elements apart for a reader, in objects of any kind: the merge keys of a typed
// object do not (two ports of one number, tolerations, owner references).
var lists = map[string]listOf{
	"initContainers":            {"init container", []string{"name"}},
	"ephemeralContainers":       {"ephemeral container", []string{"name"}},
	"env":                       {"env", []string{"name"}},
	"volumeMounts":              {"volume mount", []string{"mountPath"}},
	"volumeDevices":             {"volume device", []string{"devicePath"}},
	"ports":                     {"port", []string{"containerPort", "port", "protocol"}},
	"imagePullSecrets":          {"image pull secret", []string{"name"}},
	"hostAliases":               {"host alias", []string{"ip"}},
	"tolerations":               {"toleration", []string{"key", "operator", "value", "effect"}},
	"taints":                    {"taint", []string{"key", "effect"}},
	"ownerReferences":           {"owner reference", []string{"kind", "name"}},
	"topologySpreadConstraints": {"topology spread constraint", []string{"topologyKey", "whenUnsatisfiable"}},
	"resourceClaims":            {"resource claim", []string{"name"}},
	"schedulingGates":           {"scheduling gate", []string{"name"}},
	"readinessGates":            {"readiness gate", []string{"conditionType"}},
	"conditions":                {"condition", []string{"type"}},
	"addresses":                 {"address", []string{"type", "address"}},
	"volumeClaimTemplates":      {"volume claim template", []string{"name"}},
	"envFrom":                   {"envFrom", nil},
	"args":                      {"args", nil},
	"command":                   {"command", nil},
}

// singular returns what an element of a list is called.
func singular(list string) string {
	if known, ok := lists[list]; ok {
		return known.singular
	}
	return strings.TrimSuffix(list, "s")
}

// nameIn returns the name of an element of a list, or "" if it has none.
func nameIn(list string, element any) string {
	fields, ok := element.(map[string]any)
	if !ok {
		return ""
	}
	known, ok := lists[list]
	if !ok {
		known.keys = []string{"name"}
	}
	var parts []string
	for _, key := range known.keys {
		switch value := fields[key].(type) {
		case string:
			parts = append(parts, value)
		case json.Number:
			parts = append(parts, value.String())
		case nil:
		default:
			return ""
		}
	}
	return strings.Join(parts, ":")
}

// names returns the names of all elements of a list; nil unless each has one of its own.
func names(list string, elements []any) []string {
	seen := map[string]bool{}
	all := make([]string, 0, len(elements))
	for _, element := range elements {
		name := nameIn(list, element)
		if name == "" || seen[name] {
			return nil
		}
		seen[name] = true
		all = append(all, name)
	}
	return all
}

// thing names what a path points to, from the inside out: "env LOG_LEVEL of container app".
func thing(p path) string {
	last := -1
	for i, s := range p {
		if s.isItem {
			last = i
		}
	}
	if last < 0 {
		return field(p)
	}
	if last == len(p)-1 {
		return element(p)
	}
	if p[last-1].key == "env" && len(p) == last+2 && p[last+1].key == "value" {
		return element(p[:last+1])
	}
	return field(p[last+1:]) + " of " + element(p[:last+1])
}

// field names a field by its path below the last element of a list.
func field(p path) string {
	for i, s := range p {
		if (s.key == "labels" || s.key == "annotations") && i == len(p)-2 {
			where := ""
			if prefix := p[:i].String(); i > 1 {
				where = " of " + strings.TrimSuffix(prefix, ".metadata")
			} else if i == 1 && p[0].key != "metadata" {
				where = " of " + prefix
			}
			return strings.TrimSuffix(s.key, "s") + " " + p[i+1].key + where
		}
	}
	return p.String()
}

// element names an element of a list, and the element that the list is in.
func element(p path) string {
	s, list := p[len(p)-1], p[:len(p)-1]
	if len(list) == 0 || list[len(list)-1].isItem {
		return p.String()
	}
	key := list[len(list)-1].key
	name := singular(key) + " " + s.name
	if s.name == "" {
		name = fmt.Sprintf("%s[%d]", key, s.index)
		if s.index < 0 {
			name = "the last of " + key
		}
	}
	above := list[:len(list)-1]
	for i := len(above) - 1; i >= 0; i-- {
		if above[i].isItem {
			return name + " of " + element(above[:i+1])
		}
	}
	if where := above.String(); len(above) > 0 && where != "spec" && where != "metadata" {
		return name + " of " + where
	}
	return name
}
