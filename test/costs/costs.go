// Package costs has the most expensive calls of functions that a rule may hold, with the texts that make them so.
package costs

import (
	"fmt"
	"regexp"
	"strings"
)

// Call is an expression that calls a function, on the texts x and y of a ConfigMap.
type Call struct {
	Function, Expression string
	X, Y                 string // are repeated
}

// Object returns a ConfigMap with texts of a size in all.
func (c Call) Object(size int) string {
	x, y := c.X, c.Y
	if y != "" {
		size /= 2
	}
	if x != "" {
		x = strings.Repeat(x, max(1, size/len(x)))
	}
	if y != "" {
		y = strings.Repeat(y, max(1, size/len(y)))
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"colocation"},"data":{"x":%q,"y":%q}}`, x+c.tail(), y+c.tail())
}

// tail is the end of both texts, which only those see that read to the end.
func (c Call) tail() string {
	if c.X == "a" {
		return "b"
	}
	return ""
}

// email, image and path are patterns that people have.
const (
	email = `[^@ ]{1,64}@[^@ ]{1,255}`
	image = `^(?:(?:[a-z0-9]+(?:[._-][a-z0-9]+)*)(?::[0-9]+)?/)*[a-z0-9]+(?:(?:[._]|__|[-]*)[a-z0-9]+)*(?::[\\w][\\w.-]{0,127})?(?:@sha256:[a-f0-9]{64})?$`
	path  = `^(/[A-Za-z0-9._~-]{1,40}){1,20}/?$`
)

// names matches the names x and y of texts.
var names = regexp.MustCompile(`(^|[^\w%'])([xy])\b`)

// Calls returns an expression for each function, and those that were the worst before calls had a price.
func Calls() []Call {
	pattern := func(text, x string) Call {
		return Call{Function: "matches", Expression: "!x.matches('" + text + "')", X: x}
	}
	calls := []Call{
		pattern(email, "a"), pattern(image, "a/"), pattern(path, "/a"), pattern("(a{0,10}){0,10}c", "a"), pattern("a.*c", "a"), pattern(".*[a-z]{0,127}Z.*", "a"),
		{"matches", "x.matches(y)", "a", "(a?)"}, {"matches", "x.matches(y.substring(0, 900) + '{1000}')", "a", "(a?)"}, {"matches", "x.matches(y.substring(0, 2000))", "a", `(?i)\pL`},
		{"matches", "!x.matches('(?i)[' + y.substring(0, 396) + ']')", "a", "B-𞥂"}, {"find", "x.find('(?i)[' + y.substring(0, 3) + ']') == ''", "a", "B-𞥂"},
		{"find", "x.find('" + email + "') == ''", "a", ""}, {"findAll", "x.findAll('a.*c|a').size() > 0", "a", ""}, {"findAll", "x.findAll('a').size() > 0", "a", ""}, {"findAll", "x.findAll(y.substring(0, 1) + '.*c|a').size() > 0", "a", "a"},
		{"matches", "lists.range(1000).all(i, !x.matches('a.*c'))", "a", ""},
		{"indexOf", "x.indexOf(y) != 0", "a", "a"}, {"lastIndexOf", "x.lastIndexOf('b' + y) < 1", "a", "a"}, {"indexOf", "x.split(',').indexOf(y) < 0", "a,", "b"},
		{"indexOf", "x.indexOf(y.substring(0, 999) + 'c') < 0", "a", "a"}, {"lastIndexOf", "x.lastIndexOf('c' + y.substring(0, 999)) < 0", "a", "a"}, {"indexOf", "x.indexOf(y.substring(0, 99) + 'c') < 0", "é", "é"},
		{"contains", "!x.contains(y + 'c')", "a", "a"}, {"startsWith", "x.startsWith(x)", "é", ""}, {"endsWith", "x.endsWith(x)", "é", ""},
		{"size", "lists.range(10000).all(i, x.size() > 1)", "é", ""}, {"_==_", "lists.range(10000).all(i, x != y)", "é", "é"}, {"_<_", "lists.range(10000).all(i, !(x < y))", "é", "é"},
		{"split", "x.split('').all(c, c != '%')", "a", ""}, {"split", "x.split(',').size() > 0", "a,", ""}, {"split", "lists.range(1000).all(i, x.split(',').size() > 0)", "a,", ""},
		{"replace", "x.replace('a', 'bbbbbbbbbbbbbbbb').replace('b', 'cccccccccccccccc').size() > 0", "a", ""}, {"replace", "x.replace('', 'é').size() > 0", "a", ""},
		{"join", "x.split(',').join(y).size() > 0", "a,", "b"}, {"join", "[x, x, x, x, x, x, x].join(',').size() > 0", "a", ""},
		{"format", "'%s%s%s%s'.format([object, object, x, x]).size() > 0", "\n", ""}, {"format", "y.format([1.5]).size() > 0", "a", "%.99999999f"}, {"format", "'%x'.format([x]).size() > 0", "a", ""},
		{"_+_", "(x + x + x + x + x + x + x + x).size() > 0", "a", ""}, {"_+_", "x.split(',').map(c, x + c).size() > 0", "a,", ""},
		{"_+_", "x.split(',').map(c, [c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c]).size() > 0", "a,", ""},
		{"lowerAscii", "x.lowerAscii() != ''", "é", ""}, {"upperAscii", "lists.range(1000).all(i, x.upperAscii() != '')", "a", ""}, {"trim", "x.trim() == ''", " ", ""},
		{"charAt", "lists.range(1000).all(i, x.charAt(i) != '')", "a", ""}, {"substring", "lists.range(1000).all(i, x.substring(i) != '')", "a", ""},
		{"strings.quote", "strings.quote(x).size() > 0", "\n", ""}, {"bytes", "bytes(x).size() > 0", "é", ""}, {"string", "string(bytes(x)).size() > 0", "é", ""},
		{"int", "int(x) == 0", "0", ""}, {"uint", "uint(x) == 0u", "0", ""}, {"double", "double(x) > 0.0", "1", ""}, {"bool", "bool(x)", "a", ""},
		{"timestamp", "timestamp(x) > timestamp(0)", "2", ""}, {"duration", "duration(x) > duration('1h')", "1h", ""}, {"getHours", "lists.range(1000).all(i, timestamp(i).getHours('Europe/Rome') >= 0)", "a", ""},
		{"isQuantity", "isQuantity(x)", "1", ""}, {"quantity", "quantity(x).isLessThan(quantity('1'))", "1", ""}, {"quantity", "quantity('1' + x.substring(0, 30) + 'e2000000000').isLessThan(quantity('1'))", "1", ""},
		{"quantity", "quantity('1e2000000000').add(quantity('1')).isLessThan(quantity('1'))", "1", ""},
		{"url", "url('http://a/' + x).getEscapedPath() == ''", "%41", ""}, {"isURL", "isURL('http://a/' + x)", "%41", ""}, {"getQuery", "url('http://a/?' + x).getQuery().size() > 0", "a&", ""},
		{"semver", "semver('1.0.0-' + x + '1').major() > 0", "a.", ""}, {"isSemver", "isSemver('1.0.0-' + x + '1')", "a.", ""},
		{"isIP", "isIP(x)", "1:", ""}, {"ip", "ip(x).family() == 4", "1", ""}, {"ip.isCanonical", "ip.isCanonical(x)", "1:", ""}, {"isCIDR", "isCIDR(x)", "1:", ""}, {"cidr", "cidr(x).ip().family() == 4", "1.", ""},
		{"containsIP", "cidr('10.0.0.0/8').containsIP(x)", "1.", ""},
		{"lists.range", "lists.range(100000).all(i, i >= 0)", "a", ""}, {"lists.range", "lists.range(100000000).size() > 0", "a", ""},
		{"reverse", "x.split(',').reverse().size() > 0", "a,", ""}, {"slice", "x.split(',').slice(0, 1000).size() > 0", "a,", ""}, {"flatten", "[x.split(','), x.split(',')].flatten().size() > 0", "a,", ""},
		{"distinct", "lists.range(20000).distinct().size() > 0", "a", ""}, {"sort", "x.split(',').sort().size() > 0", "a,", ""}, {"@sortByAssociatedKeys", "lists.range(30000).sortBy(i, -i).size() > 0", "a", ""},
		{"isSorted", "x.split(',').isSorted()", "a,", ""}, {"min", "x.split(',').min() == ''", "a,", ""}, {"max", "x.split(',').max() == ''", "a,", ""}, {"sum", "lists.range(100000).sum() > 0", "a", ""},
		{"includes", "x.split(',').includes(y)", "a,", "b"}, {"@in", "lists.range(1000).all(i, !(y in x.split(',')))", "a,", "b"}, {"optional.unwrap", "optional.unwrap(x.split(',').map(c, optional.of(c))).size() > 0", "a,", ""},
		{"unwrapOpt", "x.split(',').map(c, optional.of(c)).unwrapOpt().size() > 0", "a,", ""},
		{"sets.contains", "sets.contains(lists.range(50000), lists.range(50000))", "a", ""}, {"sets.intersects", "sets.intersects(x.split(','), y.split(';'))", "a,", "b;"},
		{"distinct", "lists.range(1500).map(i, 'long-text-with-a-number-' + string(i)).distinct().size() > 0", "a", ""},
		{"sets.contains", "sets.contains(lists.range(1200).map(i, string(i)), lists.range(1200).map(i, string(i)))", "a", ""},
		{"sets.equivalent", "sets.equivalent(x.split(','), y.split(','))", "a,", "a,"}, {"cel.@mapInsert", "x.split(',').transformMap(i, c, x).size() > 0", "a,", ""},
		{"cel.@mapInsert", "x.split(',').transformMapEntry(i, c, {string(i): c}).size() > 0", "a,", ""},
		{"optional.of", "lists.range(12000).map(i, optional.of([" + strings.Repeat("1, ", 1000) + "i])).size() > 0", "a", ""},
		{"size", "lists.range(1000).all(i, [" + strings.Repeat("1, ", 10_000) + "i].size() > 0)", "a", ""},
		{"@in", "lists.range(20000).all(i, !(x in ['a', 'b']))", "a", ""}, {"size", "lists.range(20000).all(i, {x: i}.size() > 0)", "a", ""},
	}
	for _, format := range strings.Fields("byte date datetime dns1035Label dns1123Subdomain labelValue qualifiedName uri uuid") {
		calls = append(calls, Call{"validate", "format." + format + "().validate(x).hasValue()", "a.", ""})
	}
	for i := range calls {
		calls[i].Expression = names.ReplaceAllString(calls[i].Expression, "${1}object.data.${2}")
	}
	return calls
}
