package quantity

import (
	"fmt"
	"math/big"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/test/seed"
)

func TestAmplify(t *testing.T) {
	cases := []struct {
		name         corev1.ResourceName
		base, ratio  string
		want         string
		wantSaturate bool
	}{
		{"cpu", "15900m", "2", "31800m", false}, // by Value() it would be 32
		{"cpu", "4", "1.5", "6", false},
		{"cpu", "7", "1.333", "9331m", false},
		{"cpu", "3920m", "1.1", "4312m", false},
		{"cpu", "15.9", "2", "31800m", false},
		{"cpu", "1", "1.0005", "1", false}, // down to whole milli-cores
		{"cpu", "1100u", "1", "1m", false},
		{"memory", "16293824Ki", "2", "32587648Ki", false},
		{"memory", "16324356Ki", "1.5", "24486534Ki", false},
		{"memory", "16324355Ki", "1.1", "18387753472", false}, // whole bytes, never milli-bytes
		{"memory", "12Ti", "1.5", "18Ti", false},
		{"memory", "12Pi", "1.5", "18Pi", false}, // the reference overflows to a negative value
		{"memory", "1e3", "2", "2e3", false},
		{"memory", "4Ei", "9999", "9223372036854775807", true},
		{"cpu", "9P", "9999", "9223372036854775807m", true},
		{"cpu", "9E", "2", "9E", true}, // never below the original
		{"memory", "8Gi", "1", "8Gi", false},
	}
	for _, c := range cases {
		ratio, err := ParseRatio(c.ratio)
		if err != nil {
			t.Fatal(err)
		}
		got, saturated := ratio.Amplify(resource.MustParse(c.base), c.name)
		if got.String() != c.want || saturated != c.wantSaturate {
			t.Errorf("%s %s × %s = %s (saturated %v), want %s (%v)", c.name, c.base, c.ratio, got.String(), saturated, c.want, c.wantSaturate)
		}
	}
}

// TestAmplifyIsExact compares with plain big.Rat arithmetic on random values; a failure prints them.
func TestAmplifyIsExact(t *testing.T) {
	r := seed.Random(t)
	for range 5000 {
		milli, cents := r.Int64N(1<<50), 100+r.Int64N(900)
		ratio, err := ParseRatio(fmt.Sprintf("%d.%02d", cents/100, cents%100))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := ratio.Amplify(*resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceCPU)
		want := new(big.Int).Div(new(big.Int).Mul(big.NewInt(milli), big.NewInt(cents)), big.NewInt(100))
		if got.Cmp(*resource.NewMilliQuantity(want.Int64(), resource.DecimalSI)) != 0 {
			t.Fatalf("%dm × %s = %s, want %sm", milli, ratio, got.String(), want)
		}
	}
}

func TestParseRatio(t *testing.T) {
	for _, bad := range []string{"", "0.5", "-2", "+2", "1e3", "NaN", "Inf", "2,5", "10000", "1.1234567", " 2", "0.999999", "0", "2."} {
		if r, err := ParseRatio(bad); err == nil {
			t.Errorf("ParseRatio(%q) = %s, want an error", bad, r)
		}
	}
	one, two, three := must(t, "1.0"), must(t, "2"), must(t, "3.5")
	if one.Amplifies() || !two.Amplifies() || (Ratio{}).Amplifies() || (Ratio{}).String() != "1" {
		t.Error("Amplifies is wrong about 1, 2 or the zero ratio")
	}
	if !three.Above(two) || two.Above(three) || two.Above(two) || !two.Above(Ratio{}) || one.Above(Ratio{}) || (Ratio{}).Above(one) {
		t.Error("Above is wrong")
	}
}

func must(t *testing.T, text string) Ratio {
	t.Helper()
	r, err := ParseRatio(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseQuantityIsBounded(t *testing.T) {
	for _, bad := range []string{"1e-5000000", "1e999999999", "", "x", "1 ", "1Kib", "1..2e999"} {
		if _, err := ParseQuantity(bad); err == nil {
			t.Errorf("ParseQuantity(%q) was accepted", bad)
		}
	}
	for _, good := range []string{"15900m", "15.9", "16Gi", "1e3", "100u", "-1", "0", "12.5E"} {
		if _, err := ParseQuantity(good); err != nil {
			t.Errorf("ParseQuantity(%q): %v", good, err)
		}
	}
}

// FuzzParseQuantity: what is accepted is parsed like resource.ParseQuantity does, and can be amplified without a panic.
func FuzzParseQuantity(f *testing.F) {
	for _, seed := range []string{"15900m", "16324356Ki", "1e3", "1e-99", "0.000000001", "9223372036854775807", "99999999999999999999E"} {
		f.Add(seed, "1.5")
	}
	f.Fuzz(func(t *testing.T, text, factor string) {
		q, err := ParseQuantity(text)
		ratio, ratioErr := ParseRatio(factor)
		if err != nil || ratioErr != nil || q.Sign() < 0 {
			return
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			product, saturated := ratio.Amplify(q, name)
			want := new(big.Rat).Mul(InUnits(q, name), ratio.fraction())
			if got := InUnits(product, name); !saturated && (got.Cmp(want) > 0 || new(big.Rat).Sub(want, got).Cmp(big.NewRat(1, 1)) >= 0) {
				t.Fatalf("%s %s × %s = %s", name, text, factor, product.String())
			}
		}
	})
}

// TestAmplifyByBigNumbers: whole units take a fast path with 64-bit integers, which agrees with the slow one at its
// limits.
func TestAmplifyByBigNumbers(t *testing.T) {
	cases := []struct {
		name                    corev1.ResourceName
		quantity, ratio, result string
		saturated               bool
	}{
		{"memory", "9223372036854775807", "1", "9223372036854775807", false},
		{"memory", "9223372036854775807", "1.000001", "9223372036854775807", true},
		{"memory", "4611686018427387903", "2", "9223372036854775806", false},
		{"memory", "4611686018427387904", "2", "9223372036854775807", true},
		{"memory", "9223372036854775807", "9999.999999", "9223372036854775807", true},
		{"memory", "1Ki", "1.999999", "2047", false},
		{"memory", "3", "1.333333", "3", false},
		{"memory", "8Ei", "1.5", "9223372036854775807", true},
		{"memory", "0.5", "3", "1", false},
		{"memory", "99E", "2", "99E", true},
		{"cpu", "15900m", "2", "31800m", false},
		{"cpu", "0.0001", "1.5", "0", false},
		{"cpu", "0.0015", "2", "3m", false},
		{"cpu", "9223372036854775807m", "1.1", "9223372036854775807m", true},
		{"cpu", "-1500m", "1.5", "-2250m", false},
		{"cpu", "-1m", "1.5", "-2m", false}, // down is away from zero
		{"cpu", "0", "7", "0", false},
	}
	for _, c := range cases {
		got, saturated := must(t, c.ratio).Amplify(resource.MustParse(c.quantity), c.name)
		if got.Cmp(resource.MustParse(c.result)) != 0 || saturated != c.saturated {
			t.Errorf("%s %s × %s = %s, %v, want %s, %v", c.name, c.quantity, c.ratio, got.String(), saturated, c.result, c.saturated)
		}
	}
}
