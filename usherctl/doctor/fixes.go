package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
)

// subject holds the values of a finding that its command is made of.
type subject struct {
	entry // the webhook; empty if it is about the cluster
	connectivity.Subject
	changes  []change // of the webhook; none: no command knows them
	restored bool     // usher's own registration ends it
	also     []entry  // webhooks that it makes superfluous
	misspelt bool     // the selector, or the name in the Deployment, may be what is misspelt
	watching bool     // usher lacks rights to watch the cluster
	writing  bool     // usher lacks rights to keep its certificates
	pod      types.NamespacedName
	replaced bool // a controller replaces the pod
}

// change is a field of a webhook, such as "timeoutSeconds" or "rules.0.resources.1", with the value that it should have.
type change struct {
	field string
	value any
}

// command is what a finding prints: it ends the finding or, where no command can, shows what a person has to correct.
type command struct {
	text  string
	looks bool
	todo  string // for the person
}

func fix(text string) command        { return command{text: text} }
func look(text, todo string) command { return command{text, true, todo} }

// about returns the subject of a finding about the webhook.
func (w entry) about() subject { return subject{entry: w} }

// lacks returns the subject of a finding about a field of the webhook, with the value that it should have.
func (w entry) lacks(field string, value any) subject {
	return subject{entry: w, changes: []change{{field, value}}}
}

// onDisk returns the command for what is in a file of the API server, where kubectl changes nothing: it opens the first such file.
func onDisk(s subject, way command) command {
	if !strings.Contains(way.text, "webhookconfiguration ") {
		return way // it is about the Service, the pods, or the certificate
	}
	for _, w := range append([]entry{s.entry}, s.also...) {
		if w.file != "" {
			return look(w.openFile(), "The configuration is in a file of the API server, which reads it again within a minute; every API server has its own.")
		}
	}
	return way
}

func show(s subject) command { return look(s.show(), "") }

// set sets the fields of the webhook.
func set(s subject) command { return fix(s.patch(s.changes...)) }

// edit lets a person correct the webhook.
func edit(s subject) command { return look(s.edit(), "") }

// restoreOr restores usher's registration, lets a person correct the policy that it follows, or does something else with a webhook of others:
// what these are to be called for, nobody but a person knows.
func restoreOr(otherwise func(subject) command) func(subject) command {
	return func(s subject) command {
		switch {
		case !s.ushers():
			return otherwise(s)
		case s.home.Unknown != nil || s.differs():
			return s.restore()
		case s.needed != nil && len(webhooks.Additions(*s.needed, s.Hook)) > 0:
			return look(s.edit(), "Somebody has added to what usher needs, and restoring its registration would keep that.")
		}
		return look("usherctl steps", "usher is registered as its policy asks: correct the policy.")
	}
}

// keepAway keeps the webhook from requests that it is not meant for. It shows the webhook if it would be left with nothing, and never changes
// the failure policy, which decides about all that the webhook is for.
func keepAway(s subject) command {
	switch {
	case s.restored:
		return s.restore()
	case len(s.changes) > 0:
		return set(s)
	}
	return show(s)
}

func listResources(subject) command { return look("kubectl api-resources", "") }

// removePod removes a pod that its controller replaces. Any other would be lost, or, of a Job, run again.
func removePod(s subject) command {
	if !s.replaced {
		return look(fmt.Sprintf("kubectl -n %s get pod %s -o yaml", s.pod.Namespace, s.pod.Name),
			"Nothing replaces it as it was: keep what is needed of it.")
	}
	return fix(fmt.Sprintf("kubectl -n %s delete pod %s", s.pod.Namespace, s.pod.Name))
}

// removeAmplifier removes one of two amplifiers that usher does not need. What else one of somebody else does, only a person knows.
func removeAmplifier(s subject) command {
	if s.ushers() {
		return s.restore()
	}
	return edit(s)
}

// unregister removes a webhook, with its configuration if that has no other.
func (s subject) unregister() command {
	if s.siblings == 0 {
		return fix(s.remove())
	}
	return fix(s.drop())
}

// removeTwins removes the webhooks that another one makes superfluous, the last of a configuration first, so that the others stay where they are.
func removeTwins(s subject) command {
	var commands []string
	for _, w := range slices.Backward(s.also) {
		commands = append(commands, subject{entry: w}.unregister().text)
	}
	if len(commands) == 0 {
		return show(s)
	}
	return fix(strings.Join(commands, " && "))
}

// removeOrphan restores a webhook of usher that nothing serves any more. Whether one of others is to be served again, only a person knows.
func removeOrphan(s subject) command {
	switch called := s.Target.Service; {
	case !s.ushers():
		return show(s)
	case called.Namespace == s.home.At.Namespace && called.Name == s.home.At.Service:
		return look("kubectl get services --all-namespaces -l app.kubernetes.io/name=usher", "")
	}
	return s.restore()
}

func setPort(s subject) command {
	if s.Port == 0 {
		return showCalled(s)
	}
	return fix(s.patch(change{"clientConfig.service.port", s.Port}))
}

// showCalled shows what names the address that is called.
func showCalled(s subject) command {
	if s.Target.URL != "" {
		return show(s)
	}
	return look("kubectl -n "+report.Word(s.Target.Service.Namespace)+" get service "+report.Word(s.Target.Service.Name)+" -o yaml", "")
}

// listPods lists the pods that should be behind the Service.
func listPods(s subject) command {
	in := "kubectl -n " + report.Word(s.Service.Namespace) + " get "
	if len(s.Service.Spec.Selector) == 0 {
		return look(in+"endpointslices -l "+discoveryv1.LabelServiceName+"="+report.Word(s.Service.Name)+" -o yaml", "")
	}
	return look(in+"pods -l "+report.Word(labels.FormatLabels(s.Service.Spec.Selector)), "")
}

// compareLabels shows the labels of namespaces, or lets a person correct the selector. Which of them is wrong, only a person knows.
func compareLabels(s subject) command {
	if s.misspelt {
		return edit(s)
	}
	return look("kubectl get namespaces --show-labels", "")
}

// restore returns the command that restores usher's registration. While it is not known what usher needs, it only shows the registration:
// apply could remove what is in use.
func (s subject) restore() command {
	if s.home.Unknown != nil {
		return look("kubectl get mutatingwebhookconfiguration,validatingwebhookconfiguration usher -o yaml", "With the policy that usher runs with, "+
			s.home.apply()+" --config FILE restores its registration.")
	}
	return fix(s.home.apply())
}

// correctPolicy lets a person correct the ConfigMap with usher's policy, or its name.
func correctPolicy(s subject) command {
	in, from := "kubectl -n "+report.Word(s.home.At.Namespace), s.home.Deployed
	switch {
	case from.ConfigMap == "" || s.misspelt:
		return look(in+" edit deployment "+report.Word(s.home.At.Service), "")
	case errors.Is(s.home.Unusable, reader.ErrNotFound):
		return look(in+" get configmaps", "Create it with usher's policy under the key "+from.Key+", or correct its name in the Deployment.")
	}
	return look(in+" edit configmap "+report.Word(from.ConfigMap), "")
}

// showImage shows the image of usher, whose tag is its version.
func showImage(s subject) command {
	return look("kubectl -n "+report.Word(s.home.At.Namespace)+" get deployment "+report.Word(s.home.At.Service)+" -o wide", "")
}

// grant gives usher its rights, and binds them to its user.
func grant(s subject) command {
	var commands []string
	if u := s.home; s.watching {
		who := "--user=" + report.Word(u.At.User)
		if account, is := strings.CutPrefix(u.At.User, "system:serviceaccount:"); is {
			who = "--serviceaccount=" + report.Word(account)
		}
		gates := ""
		if text := u.Deployed.Flag("feature-gates"); text != "" {
			gates = " --feature-gates " + report.Word(text)
		}
		commands = append(commands, "usher webhooks --rbac"+gates+" | kubectl auth reconcile -f -", // which keeps labels and other rules
			"kubectl create clusterrolebinding usher --clusterrole=usher "+who+" --dry-run=client -o yaml | kubectl auth reconcile -f -")
	}
	if s.writing {
		commands = append(commands, "usher webhooks --rbac --certs=managed --service "+report.Word(s.home.service())+
			" --user="+report.Word(s.home.At.User)+" | kubectl auth reconcile -f -")
	}
	return fix(strings.Join(commands, " && "))
}

// checkRights shows the rights of the caller, or whether the API server answers. For a malformed file there is nothing to show.
func checkRights(s subject) command {
	switch {
	case reader.IsForbidden(s.Err):
		return look("kubectl auth can-i --list", "")
	case errors.As(s.Err, new(*reader.MalformedError)):
		return look("", "Correct the file.")
	}
	return look("kubectl get --raw /readyz", "")
}
