package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// shortDir returns a directory for temporary files whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestLab: an API server is there, with what was loaded; usher changes and refuses pods by a policy that is followed; and after an
// interrupt nothing is left.
func TestLab(t *testing.T) {
	temporary, policy := shortDir(t), filepath.Join(t.TempDir(), "policy.yaml")
	putFile(t, policy, []byte("env: [{name: FIRST, value: x}]\n"))
	c := exec.Command("sh", "-c", `exec usherctl lab --config "$0" --load samples/manifests/pod.yaml --load samples/cluster/namespaces.yaml`, policy)
	c.Env = append(programsOnPath(t), "TMPDIR="+temporary)
	var complaints log
	c.Stderr = &complaints
	said, err := untilServing(t, c)
	if err != nil {
		t.Fatalf("%v: %s%s", err, said, &complaints)
	}
	client := clientOf(t, temporary)
	create := func(name string) (*corev1.Pod, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		return client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	made, err := create("good")
	if err != nil || made.Spec.Containers[0].Env[0].Name != "FIRST" {
		t.Errorf("got %v, %v; want the variable FIRST", made, err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
		t.Errorf("a loaded Namespace: %v", err)
	}
	putFile(t, policy, []byte("env: [{name: SECOND, value: x}]\nsidecars: [{name: s, containers: [{name: s, image: s}]}]\nrules:\n- name: no-settings\n"+
		"  match: {apiGroups: [''], resources: [configmaps], operations: [CREATE]}\n"+
		"  validations: [{expression: 'false', message: none here}]\n"))
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	for err = nil; err == nil; time.Sleep(50 * time.Millisecond) { // until usher is registered for ConfigMaps
		_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if !strings.Contains(err.Error(), "none here") {
		t.Errorf("a refused ConfigMap: %v", err)
	}
	if made, err = create("other"); err != nil || made.Spec.Containers[0].Env[0].Name != "SECOND" {
		t.Errorf("with the new policy: got %v, %v; want the variable SECOND", made, err)
	}
	if complaints.String() != "" {
		t.Errorf("it complains: %s", &complaints)
	}
	leavesNothing(t, c, temporary, addressSaid.FindStringSubmatch(said)[1])
}

// clientOf returns a client with the kubeconfig of a lab.
func clientOf(t *testing.T, temporary string) kubernetes.Interface {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(temporary, "usher-*", "kubernetes-admin.kubeconfig"))
	if len(files) != 1 {
		t.Fatalf("the kubeconfigs are %q", files)
	}
	config, err := clientcmd.BuildConfigFromFlags("", files[0])
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// leavesNothing interrupts a lab, which ends with exit code 0, its files and its listener.
func leavesNothing(t *testing.T, c *exec.Cmd, temporary, address string) {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if connection, err := net.Dial("tcp", address); err == nil {
		_ = connection.Close()
		t.Error("it listens after its end")
	}
}

// TestLabEndsWhileItStarts: an interrupt at any time of the start ends it with exit code 0, and leaves no file.
func TestLabEndsWhileItStarts(t *testing.T) {
	for _, after := range []time.Duration{0, 300 * time.Millisecond, time.Second, 2 * time.Second} { // after its first file
		temporary := shortDir(t)
		c := exec.Command("sh", "-c", "exec usherctl lab")
		c.Env = append(programsOnPath(t), "TMPDIR="+temporary)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(maxWait); !holds(temporary) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
		time.Sleep(after)
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		err := c.Wait()
		if err != nil || holds(temporary) {
			t.Errorf("interrupted after %v: %v; files are left: %v", after, err, holds(temporary))
		}
	}
}

// holds reports whether a directory has entries.
func holds(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return len(entries) > 0
}

// TestLabRefuses: mistakes end it before anything is started.
func TestLabRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "policy.yaml")
	putFile(t, bad, []byte("nonsense: 1\n"))
	for line, want := range map[string]string{
		"--kubernetes 1.33": `^usherctl: --kubernetes 1\.33: cannot be emulated; choose one of 1\.37, 1\.36, 1\.35, 1\.34\n$`,
		"--config " + bad:   `nonsense`,
		"--suite none":      `--suite "none": must be core or colocation`,
		"--load nosuch":     `--load nosuch`,
	} {
		code, out, errors := run(t, "", append([]string{"lab"}, strings.Fields(line)...)...)
		if code != 2 || out != "" || !regexp.MustCompile(want).MatchString(errors) {
			t.Errorf("%s: exit code %d, %s%s", line, code, out, errors)
		}
	}
}
