package expression

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"usher.dev/usher/test/seed"
)

// TestIndexOf: indexOf and lastIndexOf of texts have the results that they have in the library.
func TestIndexOf(t *testing.T) {
	random, compiler := seed.Random(t), newCompiler(t)
	draw := func(most int) (text types.String) {
		for range random.IntN(most) {
			text += types.String([]string{"a", "b", "é"}[max(0, random.IntN(12)-9)])
		}
		return text
	}
	for _, name := range []string{"indexOf", "lastIndexOf"} {
		bindings, err := compiler.env.Functions()[name].Bindings()
		if err != nil {
			t.Fatal(err)
		}
		for range 5_000 {
			args := []ref.Val{draw(9), draw(4), types.Int(random.IntN(12) - 2)}
			for _, library := range bindings {
				ours := compiler.overloads[library.Operator]
				if library.Binary != nil {
					isSameResult(t, name, args[:2], ours.Binary(args[0], args[1]), library.Binary(args[0], args[1]))
				}
				if library.Function != nil {
					isSameResult(t, name, args, ours.Function(args...), library.Function(args...))
				}
			}
		}
	}
}

func isSameResult(t *testing.T, name string, args []ref.Val, got, want ref.Val) {
	if types.IsError(want) && types.IsError(got) || got.Equal(want) == types.True {
		return
	}
	t.Fatalf("%s%q: %v, want %v", name, args, got, want)
}
