//go:build hollow

// Command hollow runs one real kubelet (k8s.io/kubernetes/pkg/kubelet) with kubemark's fakes for the container
// runtime, cgroups, cadvisor and mounts. It is like `kubemark --morph=kubelet`, but it binds only to loopback, and the
// status report period and the machine's size are configurable. Each version of Kubernetes has a machine of its own. There is one node per process, because the kubelet
// registers its metrics process-wide and a second one panics.
//
// The build tag excludes it from `go vet ./...` and `go test ./...`, which would compile the kubelet again with other
// flags than the cached build. Package binaries builds it.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	noop "go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	remote "k8s.io/cri-client/pkg"
	fakeremote "k8s.io/cri-client/pkg/fake"
	"k8s.io/klog/v2"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

func must(err error) {
	if err != nil {
		klog.Fatal(err)
	}
}

func main() {
	klog.InitFlags(nil)
	kc := flag.String("kubeconfig", "", "how to reach the API server, as system:node:NAME")
	nodeName := flag.String("name", "hollow-0", "the node's name")
	port := flag.Int("port", 26250, "kubelet port on 127.0.0.1; 0: no kubelet server")
	every := flag.Duration("status-every", 10*time.Second, "node status update and report period")
	cores := flag.Int("cores", 16, "CPUs that the node reports")
	mem := flag.String("memory", "64Gi", "memory that the node reports")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	q := resource.MustParse(*mem)
	name := *nodeName
	cfg, err := clientcmd.BuildConfigFromFlags("", *kc)
	must(err)
	cfg.ContentType, cfg.UserAgent = "application/vnd.kubernetes.protobuf", "hollow-kubelet/"+name
	client, err := clientset.NewForConfig(cfg)
	must(err)
	f, c := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: name, KubeletPort: *port, MaxPods: 110,
		NodeLabels: map[string]string{"demo": "hollow"}})
	must(os.RemoveAll(f.RootDirectory)) // kubemark's is in /tmp and would remain after SIGKILL
	dir, err := os.MkdirTemp("", "hollow-")
	must(err)
	defer os.RemoveAll(dir)
	f.RootDirectory, c.StaticPodPath, c.PodLogsDir = dir, filepath.Join(dir, "static-pods"), filepath.Join(dir, "pod-logs")
	must(os.Mkdir(c.StaticPodPath, 0o700))
	must(os.Mkdir(c.PodLogsDir, 0o700))
	c.Address = "127.0.0.1" // kubemark's own value is 0.0.0.0
	c.EnableServer = *port != 0
	c.NodeStatusUpdateFrequency.Duration = *every
	c.NodeStatusReportFrequency.Duration = *every // kubemark's own value is 5m, as a real kubelet's
	ep := "unix://" + filepath.Join(dir, "runtime.sock")
	rt := fakeremote.NewFakeRemoteRuntime()
	must(rt.Start(ep))
	defer rt.Stop()
	rs, err := remote.NewRemoteRuntimeService(ctx, ep, 15*time.Second, noop.NewTracerProvider(), false)
	must(err)
	hb := *cfg
	hb.QPS, hb.Timeout = -1, *every
	hbc, err := clientset.NewForConfig(&hb)
	must(err)
	hardware := &machine{Fake: &cadvisortest.Fake{NodeName: name}, cores: *cores, mem: uint64(q.Value())}
	devices := cm.NewStubContainerManagerWithDevicePluginResource(v1.ResourceList{"example.com/widget": resource.MustParse("4")})
	hk := kubemark.NewHollowKubelet(f, c, client, hbc, hardware, rt.ImageService, rs, devices)
	must(kubeletapp.RunKubelet(ctx, &options.KubeletServer{KubeletFlags: *hk.KubeletFlags,
		KubeletConfiguration: *hk.KubeletConfiguration}, hk.KubeletDeps))
	<-ctx.Done()
}
