package doctor

import (
	"cmp"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/doctor/reach"
	"usher.dev/usher/command/review"
)

// subject holds the values of a finding that its fix is made of.
type subject struct {
	entry // the webhook; empty if it is about the cluster
	reach.Subject
	field     string // of the webhook, with the value that it should have; nil: no command knows it
	value     any
	namespace string // to be labelled
	label     string
	usher     Usher
	missing   []string // rights
}

// about returns the subject of a finding about the webhook.
func (w entry) about() subject { return subject{entry: w} }

// lacks returns the subject of a finding about a field of the webhook, with the value that it should have.
func (w entry) lacks(field string, value any) subject {
	return subject{entry: w, field: field, value: value}
}

func show(s subject) string   { return s.show() }
func edit(s subject) string   { return s.edit() }
func remove(s subject) string { return s.remove() }

// set sets a field of the webhook.
func set(s subject) string {
	if s.value == nil {
		return s.show()
	}
	return s.patch(s.field, s.value)
}

// correct sets a field of the webhook, unless it is usher's, which registers itself.
func correct(s subject) string {
	switch {
	case s.ushers():
		return "usher webhooks apply"
	case s.value == nil:
		return "kubectl api-resources"
	}
	return s.patch(s.field, s.value)
}

func removeAmplifier(s subject) string {
	if s.ushers() {
		return "usher webhooks apply"
	}
	return s.remove()
}

func installAgain(s subject) string {
	if s.ushers() {
		return "kubectl get services --all-namespaces -l app.kubernetes.io/name=usher"
	}
	return s.remove()
}

func showService(s subject) string { return getService(s.Service.Namespace, s.Service.Name) }

func getService(namespace, name string) string {
	return "kubectl -n " + review.Word(namespace) + " get service " + review.Word(name) + " -o yaml"
}

func setPort(s subject) string {
	if s.Port == 0 {
		return showService(s)
	}
	return s.patch("clientConfig.service.port", s.Port)
}

// showCalled shows what names the address that is called.
func showCalled(s subject) string {
	if s.Target.URL != "" {
		return s.show()
	}
	return getService(s.Target.Service.Namespace, s.Target.Service.Name)
}

// listPods lists the pods that should be behind the Service.
func listPods(s subject) string {
	in := "kubectl -n " + review.Word(s.Service.Namespace) + " get "
	if len(s.Service.Spec.Selector) == 0 {
		return in + "endpointslices -l " + discoveryv1.LabelServiceName + "=" + review.Word(s.Service.Name) + " -o yaml"
	}
	return in + "pods -l " + review.Word(labels.FormatLabels(s.Service.Spec.Selector))
}

// listSecrets lists the Secrets in which the certificate may be.
func listSecrets(s subject) string {
	return "kubectl -n " + review.Word(cmp.Or(s.Target.Service.Namespace, "default")) + " get secrets --field-selector type=kubernetes.io/tls"
}

// replaceBundle replaces the caBundle.
func replaceBundle(s subject) string {
	secret := s.Secret
	switch {
	case s.called().Injector() == "cert-manager" && secret.Name != "":
		return "kubectl -n cert-manager rollout restart deployment/cert-manager-cainjector" // which fills in the caBundle
	case s.ushers():
		return "usher webhooks apply --service " + s.calledService()
	case secret.Name != "":
		value := fmt.Sprintf(`'"$(kubectl -n %s get secret %s -o jsonpath='{.data.ca\.crt}')"'`, review.Word(secret.Namespace), review.Word(secret.Name))
		return strings.Replace(s.patch("clientConfig.caBundle", "CA"), `"CA"`, `"`+value+`"`, 1)
	}
	return listSecrets(s)
}

// replaceCertificate makes a new certificate for the server.
func replaceCertificate(s subject) string {
	secret := s.Secret
	switch {
	case s.called().Injector() == "cert-manager" && secret.Name != "":
		return fmt.Sprintf("kubectl -n %s delete secret %s", review.Word(secret.Namespace), review.Word(secret.Name)) // it is issued again
	case s.ushers():
		return "usher certs rotate --service " + s.calledService()
	}
	return listSecrets(s)
}

func replaceEarly(s subject) string {
	if s.OfCA {
		return replaceBundle(s)
	}
	return replaceCertificate(s)
}

// calledService returns the Service of usher as an argument.
func (s subject) calledService() string {
	return review.Word(cmp.Or(s.Target.Service.Namespace, "default") + "/" + cmp.Or(s.Service.Name, "usher"))
}

// labelNamespace gives a namespace the label that the webhook asks for.
func labelNamespace(s subject) string {
	switch {
	case s.namespace == "":
		return s.show()
	case s.label == "":
		return "kubectl get namespaces --show-labels"
	}
	return "kubectl label namespace " + review.Word(s.namespace) + " " + s.label
}

// register registers usher.
func register(s subject) string {
	return "usher webhooks apply --service " + review.Word(s.usher.At.Namespace+"/"+s.usher.At.Service)
}

// grant gives usher its rights.
func grant(s subject) string {
	if strings.Contains(strings.Join(s.missing, " "), " secrets ") {
		return "usher webhooks --rbac --certs=managed --service " + review.Word(s.usher.At.Namespace+"/"+s.usher.At.Service) + " | kubectl apply -f -"
	}
	return "usher webhooks --rbac | kubectl apply -f -"
}

// checkRights shows the rights of the caller, or whether the API server answers.
func checkRights(s subject) string {
	if reader.IsForbidden(s.Err) {
		return "kubectl auth can-i --list"
	}
	return "kubectl get --raw /readyz"
}
