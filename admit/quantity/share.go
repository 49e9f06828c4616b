package quantity

import (
	"math/big"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mebi and mega are the units that Share rounds memory to.
const mebi, mega = 1 << 20, 1000 * 1000

// Share returns a percentage of an amount, in the amount's own format and rounded down: cpu to milli-cores, memory to
// whole MiB, or to MB if the amount is written in decimal units, which is easier to read than bytes. A share of less than
// one such unit is rounded down to bytes.
func Share(q resource.Quantity, percent int, name corev1.ResourceName) resource.Quantity {
	share := InUnits(q, name)
	share.Mul(share, big.NewRat(int64(percent), 100))
	if name == corev1.ResourceCPU {
		whole, _ := ofUnits(share, name, q.Format)
		return whole
	}
	round := big.NewRat(mega, 1)
	if q.Format == resource.BinarySI {
		round = big.NewRat(mebi, 1)
	}
	if rounded := new(big.Rat).SetInt(floor(new(big.Rat).Quo(share, round))); rounded.Sign() > 0 {
		share = rounded.Mul(rounded, round)
	}
	whole, _ := ofUnits(share, name, q.Format)
	return whole
}

// CPUForMemory returns a percentage of the cpu that goes with an amount of memory, where 1Gi goes with 1 core, rounded
// down to milli-cores.
func CPUForMemory(memory resource.Quantity, percent int) resource.Quantity {
	milli := InUnits(memory, corev1.ResourceMemory)
	milli.Mul(milli, big.NewRat(1000*int64(percent), 100<<30))
	whole, _ := ofUnits(milli, corev1.ResourceCPU, resource.DecimalSI)
	return whole
}

// DividedUp returns the smallest whole amount that is at least an amount divided by a divisor, which must be positive.
func DividedUp(q, divisor resource.Quantity, name corev1.ResourceName) resource.Quantity {
	exact := InUnits(q, name)
	exact.Quo(exact, asRat(divisor))
	up := new(big.Rat).SetInt(new(big.Int).Neg(floor(new(big.Rat).Neg(exact))))
	whole, _ := ofUnits(up, name, q.Format)
	return whole
}

// asRat returns a quantity as a plain number.
func asRat(q resource.Quantity) *big.Rat { return InUnits(q, "") }
