package expression

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// price is what a call takes at most.
type price struct {
	work  int // nanoseconds
	makes int // bytes of its result
	needs int // more bytes, until it returns
}

const (
	maxCall  = 50_000_000    // nanoseconds of one call
	maxCalls = 1_000_000_000 // nanoseconds of all calls of a rule
	maxMade  = 4 << 20       // bytes of the results of all calls of a rule
	maxNeeds = 8 << 20       // more bytes of one call, until it returns

	littleWork, littleMemory = 1000, 256 // a call with less is not counted: rounds of loops are
	memoryOfElement          = 16

	// Nanoseconds, measured with Go 1.26 and cel-go 0.29.
	workOfRound   = 500 // of a loop
	workOfByte    = 2   // that is looked at once or twice
	workOfElement = 400
	workOfZone    = 200_000 // that is looked up in files

	maxExponent = 1000 // of a quantity, which a comparison makes digits of
)

// isMuch reports whether a call is worth counting.
func (p price) isMuch() bool { return p.work > littleWork || p.makes+p.needs > littleMemory }

// afford ends the evaluation of an expression, as the API server's limits do, if a call would take too much. A large call
// waits for its turn.
func (r *reader) afford(function string, p price) {
	work, made, said := r.work+p.work, r.made+p.makes, ""
	switch {
	case p.work > maxCall:
		said = fmt.Sprintf("%s would take about %d ms with these arguments, and may take %d ms", function, p.work/1e6, maxCall/1_000_000)
	case work > maxCalls:
		said = fmt.Sprintf("the calls of functions would take more than %d ms, up to this one of %s", maxCalls/1_000_000, function)
	case made > maxMade || p.needs > maxNeeds:
		said = fmt.Sprintf("the results of functions would take more than %d MiB, up to this one of %s", maxMade>>20, function)
	}
	if said != "" {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded,
			Message: said + "; look at fewer elements, at shorter texts, or use a shorter pattern"})
	}
	if r.work, r.made = work, made; made+p.needs > madeWithoutTurn {
		r.spent, r.next = max(r.spent, workPerTurn), 0
	}
	r.spend(p.work)
}

// constant are the functions whose work does not depend on the size of their arguments. Those that are neither here nor in
// prices look at all of them once or twice.
var constant = setOf("!_ -_ _-_ _*_ _/_ _%_ @not_strictly_false __not_strictly_false__ dyn type value hasValue or orValue optional.none " +
	"optional.of optional.ofNonZeroValue first last asApproximateFloat asInteger sign isInteger isLessThan isGreaterThan compareTo add sub " +
	"major minor patch family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast masked prefixLength containsCIDR")

func setOf(names string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(names) {
		all[name] = true
	}
	return all
}

// prices are the prices of the other functions.
var prices = map[string]func([]ref.Val) price{
	"_==_": compared, "_!=_": compared, "_+_": added, "cel.@mapInsert": inserted, "size": perByte(2, 0, 0), "contains": perByte(4, 0, 0),
	"@in": within, "isSorted": elements, "sum": elements, "min": elements, "max": elements, "includes": elements,
	"charAt": perByte(10, 0, 4), "substring": perByte(10, 1, 4), "lowerAscii": perByte(10, 1, 4), "upperAscii": perByte(10, 1, 4),
	"trim": perByte(4, 0, 0), "strings.quote": perByte(60, 4, 4), "split": split, "replace": replaced, "join": joined,
	"format": formatted, "indexOf": searched, "lastIndexOf": searched, "bytes": perByte(2, 2, 0), "string": perByte(4, 2, 0),
	"int": perByte(10, 0, 8), "uint": perByte(10, 0, 8), "double": perByte(40, 0, 8),
	"bool": perByte(4, 0, 8), "timestamp": perByte(40, 0, 8), "duration": perByte(40, 0, 8), "quantity": parsedQuantity, "isQuantity": parsedQuantity,
	"url": perByte(40, 6, 8), "isURL": perByte(40, 0, 8), "getEscapedPath": perByte(40, 6, 0), "getQuery": perByte(600, 200, 0),
	"semver": perByte(200, 60, 60), "isSemver": perByte(200, 0, 60), "validate": perByte(100, 8, 8), "ip": perByte(60, 0, 30),
	"isIP": perByte(60, 0, 30), "ip.isCanonical": perByte(60, 0, 30), "cidr": perByte(60, 0, 30), "isCIDR": perByte(60, 0, 30),
	"containsIP": perByte(60, 0, 30), "lists.range": ranged, "slice": listed, "reverse": listed, "unwrapOpt": listed,
	"optional.unwrap": listed, "flatten": flattened,
	"distinct": paired, "sets.contains": paired, "sets.intersects": paired, "sets.equivalent": paired, "sort": sorted, "@sortByAssociatedKeys": sorted,
	"matches": matched, "find": matched, "findAll": allMatched,
}

// scanned is the price of a function that looks at everything in its arguments once or twice.
func scanned(args []ref.Val) (p price) {
	for _, arg := range args {
		switch v := arg.(type) {
		case types.String:
			p.work += workOfByte * len(v)
		case types.Int, types.Bool, types.Null:
		case types.Timestamp:
			p.work += workOfZone * (len(args) - 1)
		default:
			p.work += workOfByte * weight(v)
		}
	}
	return p
}

// weight returns about how many bytes are in a value and its elements; tooHeavy if it would have to weigh too many.
func weight(of ref.Val) int {
	left := maxMade / memoryOfElement
	if sum := weigh(of, &left); left > 0 {
		return sum
	}
	return tooHeavy
}

const tooHeavy = 1 << 36

func weigh(of ref.Val, left *int) (sum int) {
	switch v := of.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case *list:
		return len(v.raw.Bytes()) + memoryOfElement*v.raw.Size()
	case *object:
		return len(v.raw.Bytes()) + memoryOfElement*v.raw.Size()
	case apiservercel.URL:
		return len(v.RawQuery) + len(v.Path) + len(v.Host) + len(v.Fragment)
	case *types.Optional:
		if v.HasValue() {
			return weigh(v.GetValue(), left)
		}
	case *lazy.MapValue: // the variables
	case traits.Lister:
		for i, n := 0, lengthOf(v); i < n && *left > 0; i++ {
			*left--
			sum += memoryOfElement + weigh(v.Get(types.Int(i)), left)
		}
	case traits.Mapper:
		for keys := v.Iterator(); keys.HasNext() == types.True && *left > 0; *left-- {
			key := keys.Next()
			sum += 2*memoryOfElement + weigh(key, left) + weigh(v.Get(key), left)
		}
	}
	return sum
}

// kept returns about how many bytes a list takes that a value is added to.
func kept(of ref.Val) int {
	switch v := of.(type) {
	case types.Int, types.Uint, types.Bool, types.Double, types.Null, *list, *object:
		return 2 * memoryOfElement
	case types.String, types.Bytes, traits.Lister, traits.Mapper, *types.Optional:
		return 4*memoryOfElement + weight(v)
	}
	return littleMemory
}

// textOf returns an argument that is a text; "" for others.
func textOf(args []ref.Val, i int) string {
	if i < len(args) {
		text, _ := args[i].(types.String)
		return string(text)
	}
	return ""
}

// intOf returns an argument that is a number from 0 to most; most for others.
func intOf(args []ref.Val, i, most int) int {
	if i < len(args) {
		if n, ok := args[i].(types.Int); ok && n >= 0 {
			return int(min(n, types.Int(most)))
		}
	}
	return most
}

// lengthOf returns the number of elements of a list or map; 0 for others.
func lengthOf(of ref.Val) int {
	if list, ok := of.(traits.Sizer); ok && of.Type() != types.StringType {
		n, _ := list.Size().(types.Int)
		return int(n)
	}
	return 0
}

// perByte returns the price of a function that takes so much for each byte of its texts.
func perByte(work, makes, needs int) func([]ref.Val) price {
	return func(args []ref.Val) price {
		n := 0
		for _, arg := range args {
			switch arg.(type) {
			case types.String, types.Bytes, apiservercel.URL:
				n += weight(arg)
			}
		}
		return price{work * n, makes * n, needs * n}
	}
}

func elements(args []ref.Val) price {
	return price{work: workOfElement*lengthOf(args[0]) + scanned(args).work}
}

// within finds a key of a map at once.
func within(args []ref.Val) price {
	if _, ok := args[1].(traits.Mapper); ok {
		return scanned(args[:1])
	}
	return elements(args[1:])
}

func compared(args []ref.Val) price {
	if lengthOf(args[0]) != lengthOf(args[1]) {
		return price{}
	}
	return scanned(args)
}

func added(args []ref.Val) price {
	switch a := args[0].(type) {
	case types.String, types.Bytes:
		n := weight(a) + weight(args[1])
		return price{work: n, makes: n}
	case traits.MutableLister: // of a loop, with an element more
		if b, ok := args[1].(traits.Lister); ok && lengthOf(b) > 0 {
			return price{work: 2 * littleWork, makes: kept(b.Get(types.IntZero)) * lengthOf(b)}
		}
	case traits.Lister: // which is not copied
		if lengthOf(a)+lengthOf(args[1]) > maxMade {
			return price{makes: tooHeavy}
		}
	}
	return price{}
}

func inserted(args []ref.Val) (p price) {
	if _, ok := args[0].(traits.MutableMapper); !ok { // which is copied
		p.needs = 8 * memoryOfElement * lengthOf(args[0])
	}
	for _, added := range args[1:] {
		p.makes += kept(added) + 4*memoryOfElement*lengthOf(added)
	}
	p.work = 2*littleWork + p.needs + p.makes
	return p
}

func searched(args []ref.Val) price {
	n, m := len(textOf(args, 0)), len(textOf(args, 1))
	if n == 0 {
		return elements(args)
	}
	if isLinear(args) {
		return price{work: 4 * (n + m)}
	}
	return price{work: 4*(n+m) + 2*n*m, needs: 4 * (n + m)}
}

func split(args []ref.Val) price {
	text := textOf(args, 0)
	n := min(strings.Count(text, textOf(args, 1))+1, intOf(args, 2, math.MaxInt))
	return price{work: 4*len(text) + 60*n, makes: memoryOfElement * n}
}

func replaced(args []ref.Val) price {
	text, old, with := textOf(args, 0), textOf(args, 1), textOf(args, 2)
	n := min(strings.Count(text, old), intOf(args, 3, math.MaxInt))
	makes := len(text) + n*max(0, len(with)-len(old))
	return price{work: 4*len(text) + 20*n + makes, makes: makes}
}

func joined(args []ref.Val) price {
	makes := weight(args[0]) + lengthOf(args[0])*len(textOf(args, 1))
	return price{work: 8 * makes, makes: makes, needs: makes}
}

// precision matches how many digits a number has in a format.
var precision = regexp.MustCompile(`%\.(\d+)`)

func formatted(args []ref.Val) price {
	format := textOf(args, 0)
	if len(format) > madeWithoutTurn {
		return price{makes: tooHeavy}
	}
	makes := len(format) + 400*lengthOf(args[1]) + 4*weight(args[1])
	for _, digits := range precision.FindAllStringSubmatch(format, -1) {
		n, err := strconv.Atoi(digits[1])
		if err != nil || n > maxMade {
			n = maxMade
		}
		makes += n
	}
	return price{work: 25 * makes, makes: makes, needs: makes}
}

// parsedQuantity is quadratic in the digits. A large exponent stands for as many digits.
func parsedQuantity(args []ref.Val) price {
	text := textOf(args, 0)
	exponent := text[strings.LastIndexAny(text, "eE")+1:]
	if n, err := strconv.Atoi(exponent); err == nil && len(exponent) < len(text) && (n > maxExponent || n < -maxExponent) {
		return price{work: tooHeavy}
	}
	return price{work: 40*len(text) + len(text)*len(text)/100, needs: 4 * len(text)}
}

func ranged(args []ref.Val) price {
	n := intOf(args, 0, maxMade)
	return price{work: 40 * n, makes: 24 * n}
}

func listed(args []ref.Val) price {
	n := lengthOf(args[0])
	return price{work: 200 * n, makes: 2 * memoryOfElement * n}
}

func flattened(args []ref.Val) price {
	n, depth := weight(args[0]), 2
	if len(args) > 1 {
		depth = 1 + intOf(args, 1, 512)
	}
	return price{work: 10 * n * depth, makes: 2 * n, needs: 6 * n}
}

// paired is the price of a function that compares each element of one list, or two, with each other.
func paired(args []ref.Val) price {
	a, b := args[0], args[len(args)-1]
	n, m, each := lengthOf(a), lengthOf(b), 80
	if areTexts(a) && areTexts(b) {
		each = 15
	}
	return price{work: each*n*m + (n*weight(b)+m*weight(a))/8, makes: memoryOfElement * n * (2 - len(args))}
}

// areTexts reports whether all elements of a list are texts.
func areTexts(of ref.Val) bool {
	all, ok := of.(traits.Lister)
	for i := 0; ok && i < lengthOf(of); i++ {
		_, ok = all.Get(types.Int(i)).(types.String)
	}
	return ok
}

func sorted(args []ref.Val) price {
	n := lengthOf(args[0])
	return price{work: bits.Len(uint(n)) * (300*n + weight(args[len(args)-1])), makes: memoryOfElement * n, needs: 2 * memoryOfElement * n}
}
