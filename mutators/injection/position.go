package injection

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/check"
)

// Position is a place in a list of containers: First, Last, or next to the container of a name. The zero value is the
// default of the field.
type Position struct {
	First, Last   bool
	Before, After string // names

	invalid bool // none of them was written; check reports it
}

// UnmarshalJSON reads first, last, or a mapping with one of before and after. It leaves problems to check, so that the
// rest of the file is read, too.
func (p *Position) UnmarshalJSON(raw []byte) error {
	*p = Position{}
	var word string
	var next map[string]string
	if json.Unmarshal(raw, &word) == nil {
		p.First, p.Last = word == "first", word == "last"
	} else if json.Unmarshal(raw, &next) == nil && len(next) == 1 {
		p.Before, p.After = next["before"], next["after"]
	}
	p.invalid = *p == Position{}
	return nil
}

// JSONSchema is a position in schemas.
func (Position) JSONSchema() string {
	const name = `{"description":"the name of a container","type":"string","maxLength":63,"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}`
	return `{"title":"first, last, {before: NAME} or {after: NAME}","anyOf":[{"enum":["first","last"]},` +
		`{"type":"object","minProperties":1,"maxProperties":1,"additionalProperties":false,"properties":{"before":` + name + `,"after":` + name + `}}]}`
}

func (p Position) check(at *field.Path) field.ErrorList {
	switch next := p.Before + p.After; {
	case p.invalid:
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be first, last, {before: NAME} or {after: NAME}")}
	case next != "":
		return check.LabelName(next, at)
	}
	return nil
}
