package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/report"
)

// listSecrets lists the Secrets in which the certificate may be. That of a URL is elsewhere.
func listSecrets(s subject, todo string) command {
	if s.Target.URL != "" {
		return look(s.show(), todo)
	}
	return look("kubectl -n "+report.Word(cmp.Or(s.Target.Service.Namespace, "default"))+" get secrets --field-selector type=kubernetes.io/tls", todo)
}

func findSecret(s subject) command { return listSecrets(s, "") }

// replaceBundle replaces the caBundle.
func replaceBundle(s subject) command {
	secret := s.Secret
	switch {
	case s.called().Injector() == "cert-manager" && errors.Is(s.Err, reader.ErrNotFound):
		return look(s.show(), "The annotation for cert-manager names what does not exist: correct it.")
	case s.called().Injector() == "cert-manager" && secret.Name != "":
		return look("kubectl get deployments --all-namespaces -l app.kubernetes.io/component=cainjector", "The cainjector of cert-manager fills in the "+
			"caBundle: its log says why it has not, and if there is none, install it.")
	case s.ushers() && s.Target.URL != "":
		return look(s.show(), "Nothing in the cluster says where the CA of a URL is: "+s.home.apply()+" --ca-file FILE sets the caBundle.")
	case s.ushers():
		return s.restore()
	case s.ServiceCA && s.called().Injector() == "": // it fills in the caBundle where it is asked
		return fix("kubectl annotate " + strings.ToLower(s.kind) + " " + report.Word(s.configuration.Name) +
			" service.beta.openshift.io/inject-cabundle=true")
	}
	return listSecrets(s, "Nothing in the cluster says where its CA is, so that no command can set the caBundle: get it from the issuer of the "+
		"certificate.")
}

// replaceCertificate makes a new certificate for the server.
func replaceCertificate(s subject) command {
	if s.Issued {
		return look(fmt.Sprintf(`kubectl -n %s get secret %s -o jsonpath='{.data.tls\.crt}'`, report.Word(s.Secret.Namespace), report.Word(s.Secret.Name)),
			"It is issued again once this Secret is deleted, if its issuer works: see to that first, or the key is lost.")
	}
	return s.rotate("", "Nothing in the cluster says who issues it, so that no command can renew it: issue it again where it was made.")
}

// replaceCA makes a new CA, and certificates by it.
func replaceCA(s subject) command {
	if s.called().Injector() != "" {
		return listSecrets(s, "No single command renews it: renew the CA of the issuer, then delete the Secret of the certificate, which is issued again.")
	}
	return s.rotate("--ca ", "Nothing in the cluster says who made it, so that no command can renew it.")
}

// rotate makes a new certificate of usher, where usher issues it. For others there is something to do.
func (s subject) rotate(flag, todo string) command {
	switch {
	case !s.ushers():
		return listSecrets(s, todo)
	case s.home.Deployed.Flag("certs") == "managed":
		return fix("usher certs rotate " + flag + "--service " + s.calledService())
	}
	return listSecrets(s, "usher does not issue it here (--certs=managed is not set), so that no command renews it: docs/certificates.md has the "+
		"steps by hand.")
}

func replaceEarly(s subject) command {
	if s.OfCA {
		return replaceCA(s)
	}
	return replaceCertificate(s)
}

// calledService returns the Service of usher as an argument.
func (s subject) calledService() string {
	if s.Target.URL != "" {
		return report.Word(s.home.service())
	}
	return report.Word(cmp.Or(s.Target.Service.Namespace, "default") + "/" + cmp.Or(s.Service.Name, "usher"))
}
