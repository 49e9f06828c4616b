package expression

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"usher.dev/usher/test/seed"
)

// beside are rules that read much, each with an object. The API server evaluates them as ValidatingAdmissionPolicies, by
// its own code on its own types.
var beside = []struct {
	name, variable, expression string
	object                     func() runtime.Object
}{
	{"one of 1,000 keys", "", "object.data['key-00500'].size() < 100", configMap(1_000)},
	{"one of 60,000 keys", "", "object.data['key-05000'].size() < 100", configMap(60_000)},
	{"no key of 60,000", "", "!('none' in object.data)", configMap(60_000)},
	{"the number of 60,000 keys", "", "object.data.size() < 100000", configMap(60_000)},
	{"values of 1,000 keys", "", "object.data.all(k, object.data[k].size() < 100)", configMap(1_000)},
	{"values of 10,000 keys", "", "object.data.all(k, object.data[k].size() < 100)", configMap(10_000)},
	{"values of 60,000 keys", "", "object.data.all(k, object.data[k].size() < 100)", configMap(60_000)},
	{"two variables", "", "object.data.all(k, v, v.size() < 100)", configMap(10_000)},
	{"absent keys", "", "object.data.all(k, !(k + 'x' in object.data))", configMap(10_000)},
	{"through a variable", "object.?data.orValue({})", "variables.it.all(k, variables.it[k].size() < 64)", configMap(10_000)},
	{"exists in all", "", "object.data.all(k, object.data.exists(l, l == k))", configMap(300)},
	{"all in all", "", "object.data.all(k, object.data.all(l, k == l || object.data[k] != object.data[l] + 'x'))", configMap(200)},
	{"all in all of too many", "", "object.data.all(k, object.data.all(l, object.data[k] != object.data[l] + 'x'))", configMap(10_000)},
	{"equal to itself", "", "object.data == object.data", configMap(10_000)},
	{"equal to another", "object.data.transformMap(k, v, v)", "object.data == variables.it", configMap(5_000)},
	{"equal in a loop", "", "object.data.all(k, object.data == object.data)", configMap(500)},
	{"patterns", "", "object.data.all(k, object.data[k].matches('^[a-z]+-[0-9]{1,5}$'))", configMap(10_000)},
	{"patterns of the object", "", "object.data.all(k, k.matches('^' + object.data[k].substring(0, 3) + '.*'))", configMap(500)},
	{"the first volume", "", "object.spec.volumes[0].name != 'x'", pod(20_000, 0, 0)},
	{"the last volume", "", "object.spec.volumes[19999].name != 'x'", pod(20_000, 0, 0)},
	{"volumes from the last", "", "object.spec.volumes.all(i, v, object.spec.volumes[1999-i].name != 'x')", pod(2_000, 0, 0)},
	{"the first of all volumes", "", "object.spec.volumes.all(v, object.spec.volumes[0].name != v.name + 'x')", pod(20_000, 0, 0)},
	{"the number of volumes", "", "object.spec.volumes.all(v, object.spec.volumes.size() < 500000)", pod(20_000, 0, 0)},
	{"fields of volumes", "", "object.spec.volumes.all(v, !has(v.hostPath) && v.emptyDir != null)", pod(20_000, 0, 0)},
	{"names of volumes", "", "object.spec.volumes.map(v, v.name).size() == 20000", pod(20_000, 0, 0)},
	{"volumes in volumes", "", "object.spec.volumes.all(v, v in object.spec.volumes)", pod(200, 0, 0)},
	{"volumes and one more", "", "object.spec.volumes.all(v, (object.spec.volumes + [v]).size() > 0)", pod(1_000, 0, 0)},
	{"distinct names", "", "object.spec.volumes.map(v, v.name).distinct().size() == 500", pod(500, 0, 0)},
	{"keys of labels", "", "object.metadata.labels.all(k, k.size() < 64)", pod(1, 20_000, 0)},
	{"labels", "", "object.metadata.labels.all(k, object.metadata.labels[k] != '')", pod(1, 20_000, 0)},
	{"a pattern on 256 KB", "", "!object.metadata.annotations.big.matches('[a-z]+[0-9]+y$')", pod(1, 0, 256<<10)},
	{"a long text in a loop", "", "object.metadata.labels.all(k, object.metadata.annotations.big != k)", pod(1, 1_000, 256<<10)},
	{"a long text split", "", "object.metadata.annotations.big.split('1').size() > 1", pod(1, 0, 256<<10)},
	{"parts of a long text", "", "object.metadata.annotations.big.split('1').all(s, s.size() < 100)", pod(1, 0, 256<<10)},
	{"an ordinary pod", "", "object.spec.volumes.all(v, !has(v.hostPath)) && object.metadata.?labels.app.orValue('') == ''", pod(3, 5, 0)},
}

func configMap(keys int) func() runtime.Object {
	return func() runtime.Object {
		data := map[string]string{}
		for i := range keys {
			data[fmt.Sprintf("key-%05d", i)] = fmt.Sprintf("val-%05d", i)
		}
		return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"}, Data: data}
	}
}

func pod(volumes, labels, annotation int) func() runtime.Object {
	return func() runtime.Object {
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n",
			Labels: map[string]string{}, Annotations: map[string]string{"big": strings.Repeat("abcdefg1", annotation/8)}}}
		for i := range volumes {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
		for i := range labels {
			p.Labels[fmt.Sprintf("label-%05d", i)] = fmt.Sprint("value-", i)
		}
		return p
	}
}

// accessor is an expression for the compiler of the API server.
type accessor struct {
	text   string
	result *cel.Type
}

func (a accessor) GetName() string          { return "it" }
func (a accessor) GetExpression() string    { return a.text }
func (a accessor) ReturnTypes() []*cel.Type { return []*cel.Type{a.result} }

// policy returns the evaluation of a ValidatingAdmissionPolicy for the creation of an object.
func policy(t testing.TB, variable, expression string, object runtime.Object) func(context.Context) string {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	if variable != "" {
		compiler.CompileAndStoreVariable(accessor{variable, cel.AnyType}, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	}
	condition := compiler.CompileCondition([]plugincel.ExpressionAccessor{accessor{expression, cel.BoolType}},
		plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	attributes := admission.NewAttributesRecord(object, nil, object.GetObjectKind().GroupVersionKind(), "n", "a", schema.GroupVersionResource{Version: "v1", Resource: "any"},
		"", admission.Create, nil, false, nil)
	return func(ctx context.Context) string {
		versioned, err := admission.NewVersionedAttributes(attributes, object.GetObjectKind().GroupVersionKind(), nil)
		if err != nil {
			t.Fatal(err)
		}
		results, _, err := condition.ForInput(ctx, versioned, &admissionv1.AdmissionRequest{}, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
		switch {
		case err != nil || results[0].Error != nil:
			return "error"
		case results[0].EvalResult == types.True:
			return "true"
		}
		return "false"
	}
}

// rule returns the evaluation of the same rule by usher, on an object that was parsed before.
func rule(t testing.TB, variable, expression string, object runtime.Object) func(context.Context) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	of := Expressions{Validations: []Validation{{Expression: expression}}}
	if variable != "" {
		of.Variables = []Named{{"it", variable}}
	}
	program, d := compile(t, newCompiler(t), of), raw(t, string(text))
	return func(ctx context.Context) string {
		switch verdict := program.Evaluate(ctx, &Review{Object: d}); {
		case len(verdict.Failures) > 0:
			return "error"
		case len(verdict.Violations) > 0:
			return "false"
		}
		return "true"
	}
}

// TestEndsAsTheAPIServer: rules that read much have the result that the API server has for the same policy; where that
// costs too much, the rule does, too.
func TestEndsAsTheAPIServer(t *testing.T) {
	if seed.Race {
		t.Skip("it runs without the race detector: make test")
	}
	for _, c := range beside {
		if c.name == "values of 60,000 keys" {
			continue // some ten seconds, in the library
		}
		t.Run(c.name, func(t *testing.T) {
			object := c.object()
			want := policy(t, c.variable, c.expression, object)(t.Context())
			if got := rule(t, c.variable, c.expression, object)(t.Context()); got != want {
				t.Errorf("%s, but %s in the API server", got, want)
			}
		})
	}
}

// BenchmarkBesideTheAPIServer prints the CPU time of each of these rules, and as x how many times that of the API
// server's own evaluation it is. The two take turns.
func BenchmarkBesideTheAPIServer(b *testing.B) {
	for _, c := range beside {
		b.Run(strings.ReplaceAll(c.name, " ", "-"), func(b *testing.B) {
			object := c.object()
			ours, theirs := rule(b, c.variable, c.expression, object), policy(b, c.variable, c.expression, object)
			ours(b.Context())
			theirs(b.Context())
			var mine, other []time.Duration
			for b.Loop() {
				mine, other = append(mine, cpuOf(b, ours)), append(other, cpuOf(b, theirs))
			}
			b.ReportMetric(float64(median(mine).Microseconds()), "µs/usher")
			b.ReportMetric(float64(median(other).Microseconds()), "µs/apiserver")
			b.ReportMetric(float64(median(mine))/float64(median(other)), "x")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cpuOf returns the CPU time of an evaluation, with the collection of its garbage. A short one is repeated.
func cpuOf(b *testing.B, evaluate func(context.Context) string) time.Duration {
	const least = 2 * time.Millisecond
	before := cpu(b)
	for n := 1; ; n++ {
		evaluate(b.Context())
		if took := cpu(b) - before; took >= least {
			return took / time.Duration(n)
		}
	}
}

// cpu returns the CPU time of this process so far.
func cpu(b testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}
