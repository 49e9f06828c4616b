package validators

import "testing"

func TestReservePod(t *testing.T) {
	with := func(value string) string {
		return `{"metadata":{"annotations":{"scheduling.koordinator.sh/reserve-pod":` + value + `},"labels":{"n":"` + "x" + `"}}}`
	}
	refused := []string{`metadata.annotations[scheduling.koordinator.sh/reserve-pod]: Forbidden: …create a Reservation`}
	runVerdicts(t, reservePod(), []verdictCase{
		{"create with it", "", with(`"true"`), refused},
		{"create with it empty", "", with(`""`), refused},
		{"create without", "", `{"metadata":{"annotations":{"other":"true"}}}`, nil},
		{"create bare", "", `{}`, nil},
		{"update adds it", `{"metadata":{"annotations":{}}}`, with(`"true"`), refused},
		{"update adds it empty", `{}`, with(`""`), refused},
		{"update changes it", with(`"false"`), with(`"true"`), refused},
		{"update leaves it", with(`"true"`), with(`"true"`), nil},
		{"update leaves it empty", with(`""`), with(`""`), nil},
		{"update removes it", with(`"true"`), `{}`, nil},
	})
}

func BenchmarkReservePod(b *testing.B) {
	b.Run("nothing to do", func(b *testing.B) { benchCheck(b, reservePod(), benchPod("", "", nativeMembers)) })
	b.Run("at work", func(b *testing.B) {
		benchCheck(b, reservePod(), benchPod("", `"scheduling.koordinator.sh/reserve-pod":"true",`, nativeMembers))
	})
}
